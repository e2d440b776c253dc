"""Simple players of rock-paper-scissors, to play against; see `envs.games.rock_paper_scissors`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.envs.games.rock_paper_scissors import ROCK, SCISSORS
from kernel_rllib.first_generation.policy import Policy

_THROWS = SCISSORS + 1


class _Player(Policy):
    """One who draws from `stream`: what it is, runners say for each step, so that throws are the same in any runner."""

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], config: Any = None) -> None:
        """Take the spaces, and the `seed` of the settings."""
        super().__init__(observation_space, action_space, config or {})
        self.stream = np.random.default_rng(self.config.get("seed"))

    def _any(self) -> int:
        return int(self.stream.integers(ROCK, _THROWS))


class AlwaysSameHeuristic(_Player):
    """Throws in a whole episode what it has drawn for it."""

    def get_initial_state(self) -> list[Any]:
        """Return what it is going to throw."""
        return [self._any()]

    def compute_actions(
        self, obs_batch: Any, state_batches: Sequence[Any] | None = None, *ignored: Any, **further: Any
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Return what it threw before; see `Policy.compute_actions`."""
        states = list(state_batches or [[self._any() for _ in obs_batch]])
        return [int(throw) for throw in states[0]], states, {}


class BeatLastHeuristic(_Player):
    """Throws what beats the last throw of the other player; at first, anything."""

    def compute_actions(
        self, obs_batch: Any, state_batches: Sequence[Any] | None = None, *ignored: Any, **further: Any
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Return a throw for each row, which is a one-hot of the last throw; see `Policy.compute_actions`."""
        seen = [int(np.argmax(row)) for row in obs_batch]
        throws = [(last + 1) % _THROWS if last < _THROWS else self._any() for last in seen]
        return throws, list(state_batches or []), {}
