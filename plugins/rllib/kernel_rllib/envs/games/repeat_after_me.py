"""Say what was shown some steps ago: the smallest environment that needs a memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array


class RepeatAfterMeGame(Game):
    """A number is shown with each step; the action is to be the one of `repeat_delay` steps before.

    Right is worth 1, wrong -1; the first actions, before there was anything to repeat, are worth 0. An episode that
    repeats the first number only has `repeat_delay` "initial". Settings: `repeat_delay` (1), `numbers` (2),
    `episode_len` (100 steps).
    """

    defaults = {"repeat_delay": 1, "numbers": 2, "episode_len": 100}  # noqa: RUF012
    arrays = ("shown", "steps")
    shown: Array
    """int64 [episode_len + 1, lanes]: every number of the episode, drawn at its start."""
    steps: Array
    """int64 [lanes]."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._length = int(self.settings["episode_len"])
        self._numbers = int(self.settings["numbers"])
        self.observation_space = spaces.Discrete(self._numbers)
        self.action_space = spaces.Discrete(self._numbers)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.shown = np.zeros((self._length + 1, lanes), np.int64)
        self.steps = np.zeros(lanes, np.int64)

    def begin(self, lane: int, generator: Generator) -> None:
        """Draw the numbers of an episode."""
        self.shown[:, lane] = generator.integers(0, self._numbers, self._length + 1)
        self.steps[lane] = 0

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Say a number."""
        delay = self.settings["repeat_delay"]
        asked = np.zeros_like(self.steps) if delay == "initial" else self.steps - int(delay)
        right = self.shown[np.maximum(asked, 0), np.arange(len(asked))] == actions
        self.steps += 1
        return np.where(asked < 0, 0.0, np.where(right, 1.0, -1.0)), self.steps >= self._length

    def observe(self, lanes: Any) -> Array:
        """Return the number that is shown, int64 [lanes]."""
        steps = self.steps[lanes]
        shown: Array = self.shown[steps, np.arange(len(self.steps))[lanes]]
        return shown


class RepeatInitialObsGame(RepeatAfterMeGame):
    """The number that is to be repeated is the first one, all along."""

    defaults = {"repeat_delay": "initial", "numbers": 2, "episode_len": 100}  # noqa: RUF012


class RepeatAfterMe(SingleEnv):
    """One player."""

    game_class = RepeatAfterMeGame


class RepeatInitialObs(SingleEnv):
    """One player who is asked for the first number."""

    game_class = RepeatInitialObsGame
