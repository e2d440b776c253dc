"""Do what is shown: one look at one number tells which action is right, so whatever learns must learn this."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array


class GuessTheActionGame(Game):
    """A number is shown; the action is right, and worth 1, if it is that number.

    Settings: `actions` (4), `episode_len` (1: a bandit with a context).
    """

    defaults = {"actions": 4, "episode_len": 1}  # noqa: RUF012
    arrays = ("shown", "steps")
    shown: Array
    """int64 [episode_len + 1, lanes]."""
    steps: Array
    """int64 [lanes]."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._count, self._length = int(self.settings["actions"]), int(self.settings["episode_len"])
        self.observation_space = spaces.Box(0.0, 1.0, (self._count,), np.float32)
        self.action_space = spaces.Discrete(self._count)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.shown = np.zeros((self._length + 1, lanes), np.int64)
        self.steps = np.zeros(lanes, np.int64)

    def begin(self, lane: int, generator: Generator) -> None:
        """Draw the numbers of an episode."""
        self.shown[:, lane] = generator.integers(0, self._count, self._length + 1)
        self.steps[lane] = 0

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Guess."""
        right = self._now(slice(None)) == actions
        self.steps += 1
        return right.astype(np.float32), self.steps >= self._length

    def observe(self, lanes: Any) -> Array:
        """Return the number, one-hot [lanes, actions]."""
        seen: Array = np.eye(self._count, dtype=np.float32)[self._now(lanes)]
        return seen

    def _now(self, lanes: Any) -> Array:
        shown: Array = self.shown[self.steps[lanes], np.arange(len(self.steps))[lanes]]
        return shown


class GuessTheAction(SingleEnv):
    """One player."""

    game_class = GuessTheActionGame
