"""The last actions and rewards of an episode beside its observations: for policies that have to know what they did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import ObservationConnector, Previous
from kernel_rllib.errors import ConfigError
from kernel_rllib.spaces.action_rows import actions_of, row_space
from kernel_rllib.spaces.flatten import Flattener


class PreviousSteps(ObservationConnector):
    """Appends the last actions and rewards to flat rows: `[observation, actions, rewards]`, the oldest first in each.

    Discrete actions are one-hot, continuous ones are as the policy chose them. What an episode has not done yet is 0.
    """

    def __init__(self, action_space: Space[Any], *, actions: int = 1, rewards: int = 1) -> None:
        """Append.

        Args:
            action_space: The space of the environment's actions.
            actions: The number of the last actions to append.
            rewards: The number of the last rewards to append.

        Raises:
            ConfigError: If a number is below 0.
        """
        for name, count in (("actions", actions), ("rewards", rewards)):
            if not isinstance(count, int) or count < 0:
                raise ConfigError(f"the last {count!r} {name} can't be appended: give a whole number from 0 on")
        self._space = row_space(action_space)
        self._flattener = Flattener(self._space)
        self._actions, self._rewards = actions, rewards
        self.width = actions * self._flattener.size + rewards
        """The number of columns that the connector appends."""
        self.most = max(actions, rewards)
        """The number of steps back that the connector reads."""
        self._kept = np.zeros((0, self.width), np.float32)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of longer rows. Raises ConfigError for pictures: nothing can be appended to them."""
        if len(shape) != 1:
            raise ConfigError(
                f"previous actions and rewards can't be appended to observations of shape {shape}: this needs flat "
                "ones. Leave lstm_use_prev_action and lstm_use_prev_reward (attention_use_n_prev_actions and "
                "attention_use_n_prev_rewards) out, or flatten what is observed."
            )
        return (shape[0] + self.width,)

    def dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return float32."""
        return np.dtype(np.float32)

    def __call__(self, rows: Array, previous: Previous | None) -> Array:
        """Return rows with what their lanes did before."""
        if previous is None:
            self._kept = np.zeros((len(rows), self.width), np.float32)
        else:
            self._kept = self._followed(self._kept, previous)
            self._kept[previous.resets] = 0
        return np.concatenate([rows, self._kept], axis=-1, dtype=np.float32)

    def final(self, row: Array, position: int, previous: Previous) -> Array:
        """Return the row with the last actions and rewards of the episode that ended."""
        here = slice(position, position + 1)
        of_lane = Previous(previous.actions[here], previous.rewards[here], previous.resets[here])
        kept = self._followed(self._kept[here], of_lane)[0]
        return np.concatenate([row, kept], axis=-1, dtype=np.float32)

    def lane_state(self, position: int) -> dict[str, Array]:
        """Return what the lane did before."""
        return {"kept": self._kept[position].copy()}

    def set_lane_state(self, position: int, state: Mapping[str, Array]) -> None:
        """Go on with what the lane did before."""
        self._kept[position] = state["kept"]

    def _followed(self, kept: Array, previous: Previous) -> Array:
        """Return what is kept [L, width] after a step more."""
        size = self._flattener.size
        split = self._actions * size
        found = np.empty_like(kept)
        if self._actions:
            found[:, : split - size] = kept[:, size:split]
            found[:, split - size : split] = self._flattener.rows(actions_of(self._space, previous.actions))
        if self._rewards:
            found[:, split:-1] = kept[:, split + 1 :]
            found[:, -1] = previous.rewards
        return found
