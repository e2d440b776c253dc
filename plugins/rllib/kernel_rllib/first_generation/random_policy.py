"""A policy that does anything: to play against, and to compare with."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.first_generation.policy import Policy


class RandomPolicy(Policy):
    """Draws each action from its space, as `action_space.sample()` does, and learns nothing.

    Attributes:
        stream: The generator of random numbers for actions. Of one of several policies runners set it for each step,
            so that
            the actions are the same in any runner.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], config: Any = None) -> None:
        """Take the spaces, and the `seed` of the settings."""
        super().__init__(observation_space, action_space, config or {})
        self.stream = np.random.default_rng(self.config.get("seed"))
        self._drawn_from = copy.deepcopy(action_space)  # Drawing changes the random generator of a space.

    def compute_actions(
        self, obs_batch: Any, state_batches: Sequence[Any] | None = None, *unread: Any, **unread_by_name: Any
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Return an action for each observation; see `Policy.compute_actions`."""
        return [self._drawn() for _ in obs_batch], list(state_batches or []), {}

    def _drawn(self) -> Any:
        self._drawn_from.seed(int(self.stream.integers(2**31)))
        return self._drawn_from.sample()
