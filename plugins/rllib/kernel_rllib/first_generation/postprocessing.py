"""Advantages of one trajectory, as postprocessors of the first generation compute them."""

from __future__ import annotations

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError
from kernel_rllib.returns.gae import gae
from kernel_rllib.returns.returns_to_go import returns_to_go


class Postprocessing:
    """Names of columns that postprocessing adds."""

    ADVANTAGES = columns.ADVANTAGES
    VALUE_TARGETS = columns.VALUE_TARGETS


def compute_advantages(
    rollout: Batch,
    last_r: float,
    gamma: float = 0.9,
    lambda_: float = 1.0,
    use_gae: bool = True,
    use_critic: bool = True,
) -> Batch:
    """Add `advantages` and `value_targets` to a piece of one episode, and return it.

    Args:
        rollout: Consecutive steps, with `rewards`, and with `vf_preds` where values are used.
        last_r: The value of what was observed after the last step; 0 where the episode ended there.
        gamma: The discount factor of a reward that comes one step later.
        lambda_: The lambda of generalised estimates: at 1 rewards count to the end, at 0 values take over at once.
        use_gae: Whether advantages are generalised estimates.
        use_critic: Whether values are subtracted from returns.

    Raises:
        DataError: If values are needed, and the batch has none.
    """
    rewards = np.asarray(rollout[columns.REWARDS], np.float32)[:, None]
    never = np.zeros(rewards.shape, bool)
    beyond = np.zeros_like(rewards)
    beyond[-1] = last_r
    if not use_gae and not use_critic:
        returns = returns_to_go(rewards, never, never, gamma=gamma, next_values=beyond)[:, 0]
        rollout[columns.ADVANTAGES], rollout[columns.VALUE_TARGETS] = returns, np.zeros_like(returns)
        return rollout
    if columns.VF_PREDS not in rollout:
        raise DataError(
            "compute_advantages needs the column 'vf_preds', which the batch has not: add it by extra_action_out_fn, "
            "or say use_gae=False and use_critic=False"
        )
    values = np.asarray(rollout[columns.VF_PREDS], np.float32)[:, None]
    after = np.concatenate([values[1:], beyond[-1:]])
    if use_gae:
        advantages, targets = gae(rewards, values, after, never, never, gamma=gamma, lambda_=lambda_)
    else:
        targets = returns_to_go(rewards, never, never, gamma=gamma, next_values=after)
        advantages = targets - values
    rollout[columns.ADVANTAGES], rollout[columns.VALUE_TARGETS] = advantages[:, 0], targets[:, 0]
    return rollout
