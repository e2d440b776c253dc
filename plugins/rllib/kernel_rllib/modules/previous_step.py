"""The last action and reward behind observations, for models of the first generation, which take them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium.spaces import Box, Discrete, Space

from kernel_rllib.data import columns
from kernel_rllib.spaces.flatten import Flattener


@dataclass(frozen=True)
class PreviousStep:
    """The columns behind the observation in a row, as the connector `PreviousSteps` appends them.

    Attributes:
        space: The space of actions, as rows have them.
        action: Whether the last action is there.
        reward: Whether the last reward is.
    """

    space: Space[Any]
    action: bool
    reward: bool

    @property
    def width(self) -> int:
        """Return how many numbers that is."""
        return (Flattener(self.space).size if self.action else 0) + int(self.reward)

    def split(self, rows: Any) -> tuple[Any, dict[str, Any]]:
        """Return observations [N, ...] of rows [N, ...], and `prev_actions` and `prev_rewards`.

        Actions are indexes [N] of a Discrete space, arrays [N, ...] of a Box, and flat rows of any other. Where an
        episode begins they are 0.
        """
        if not self.width:
            return rows, {}
        observed = rows.shape[1] - self.width
        found: dict[str, Any] = {}
        if self.action:
            action = rows[:, observed : rows.shape[1] - int(self.reward)]
            if isinstance(self.space, Discrete):
                action = action.argmax(-1)
            elif isinstance(self.space, Box):
                action = action.reshape(-1, *self.space.shape)
            found[columns.PREVIOUS_ACTIONS] = action
        if self.reward:
            found[columns.PREVIOUS_REWARDS] = rows[:, -1]
        return rows[:, :observed], found
