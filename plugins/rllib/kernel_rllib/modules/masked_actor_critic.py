"""A policy over the actions that a mask allows, with values, for observations that have the mask in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.modules.contracts import PolicyModule
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

MASKED = -1e9
"""The logit of an action that may not be taken: its probability is 0, and all numbers are finite."""
THRESHOLD = "ranked_rewards/threshold"
"""A parameter that nothing is learned for: the return from which on episodes are worth 1."""


@dataclass(frozen=True)
class MaskedLayout:
    """Where a row of observations has what.

    Attributes:
        obs: The first column and the one after the last of what is seen.
        mask: Those of the mask.
        shape: The shape of what is seen.
    """

    obs: tuple[int, int]
    mask: tuple[int, int]
    shape: tuple[int, ...]

    def legal(self, rows: Array) -> Array:
        """Return which actions may be taken [N, A], for rows [N, W]."""
        found: Array = rows[:, slice(*self.mask)] > 0.5
        return found


class MaskedActorCritic(PolicyModule):
    """An actor-critic whose logits are those of actions that may be taken."""

    def __init__(self, layout: MaskedLayout, options: ActorCriticOptions) -> None:
        """Build it.

        Args:
            layout: The layout of rows.
            options: The options by which the networks are built.
        """
        self.layout = layout
        self.network = ActorCritic(layout.shape, layout.mask[1] - layout.mask[0], options=options)

    def parameters(self) -> Sequence[Parameter]:
        """Return those of the networks, and the threshold."""
        return [*self.network.parameters(), Parameter(THRESHOLD, (1,), initializers.zeros())]

    @property
    def learns_in(self) -> str | None:
        """Return `"torch"` where there are convolutions."""
        return self.network.learns_in

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, A], `MASKED` where an action may not be taken, and `vf_preds` [N]."""
        rows = np.asarray(nn.to_numpy(inputs[columns.OBS]))
        seen = np.ascontiguousarray(rows[:, slice(*self.layout.obs)]).reshape(-1, *self.layout.shape)
        outputs = self.network.train(nn, parameters, {columns.OBS: nn.constant(seen)})
        logits: Any = outputs[columns.ACTION_DIST_INPUTS]
        legal = self.layout.legal(rows)
        masked = nn.constant(np.full(legal.shape, MASKED, np.float32))
        return {**outputs, columns.ACTION_DIST_INPUTS: nn.where(legal, logits, masked)}
