"""The names of columns, as they are called in batches, fragments, replay and files."""

from __future__ import annotations

from typing import Final

OBS: Final = "obs"
NEXT_OBS: Final = "new_obs"
ACTIONS: Final = "actions"
REWARDS: Final = "rewards"
TERMINATEDS: Final = "terminateds"
TRUNCATEDS: Final = "truncateds"
DONES: Final = "dones"
INFOS: Final = "infos"

PREVIOUS_ACTIONS: Final = "prev_actions"
PREVIOUS_REWARDS: Final = "prev_rewards"

ACTION_DIST_INPUTS: Final = "action_dist_inputs"
ACTION_LOGP: Final = "action_logp"
ACTION_PROB: Final = "action_prob"
VF_PREDS: Final = "vf_preds"
NEXT_VF_PREDS: Final = "next_vf_preds"
Q_VALUES: Final = "q_values"

ADVANTAGES: Final = "advantages"
INTRINSIC_ADVANTAGES: Final = "intrinsic_advantages"
"""Advantages of rewards for what is new, which are added to those of the environment's."""
VALUE_TARGETS: Final = "value_targets"

STATE_IN: Final = "state_in"
STATE_OUT: Final = "state_out"
RESETS: Final = "resets"
"""True where a row is the first of its episode: what a recurrent module remembers is cleared before it."""
RETURNS_TO_GO: Final = "returns_to_go"
TIMESTEPS: Final = "timesteps"
LOSS_MASK: Final = "loss_mask"
"""1 where a row counts in losses, 0 where it only fills up a sequence."""
SEQ_LENS: Final = "seq_lens"
EMBEDDINGS: Final = "embeddings"
"""The features that a network computes from observations before its heads, where it returns them."""

NOISE: Final = "noise"
"""Standard normal numbers that noisy layers weigh: [N, width], or [1, width] for all rows alike."""

EPS_ID: Final = "eps_id"
UNROLL_ID: Final = "unroll_id"
AGENT_INDEX: Final = "agent_index"
T: Final = "t"

WEIGHTS: Final = "weights"
BATCH_INDEXES: Final = "batch_indexes"


class Columns:
    """The same names, as today's API has them: `Columns.OBS`."""

    OBS = OBS
    NEXT_OBS = NEXT_OBS
    ACTIONS = ACTIONS
    REWARDS = REWARDS
    TERMINATEDS = TERMINATEDS
    TRUNCATEDS = TRUNCATEDS
    DONES = DONES
    INFOS = INFOS
    PREVIOUS_ACTIONS = PREVIOUS_ACTIONS
    PREVIOUS_REWARDS = PREVIOUS_REWARDS
    ACTION_DIST_INPUTS = ACTION_DIST_INPUTS
    ACTION_LOGP = ACTION_LOGP
    ACTION_PROB = ACTION_PROB
    VF_PREDS = VF_PREDS
    NEXT_VF_PREDS = NEXT_VF_PREDS
    Q_VALUES = Q_VALUES
    ADVANTAGES = ADVANTAGES
    VALUE_TARGETS = VALUE_TARGETS
    STATE_IN = STATE_IN
    STATE_OUT = STATE_OUT
    RESETS = RESETS
    LOSS_MASK = LOSS_MASK
    SEQ_LENS = SEQ_LENS
    EMBEDDINGS = EMBEDDINGS
    NOISE = NOISE
    EPS_ID = EPS_ID
    UNROLL_ID = UNROLL_ID
    AGENT_INDEX = AGENT_INDEX
    T = T
    WEIGHTS = WEIGHTS
    BATCH_INDEXES = BATCH_INDEXES
