"""A corridor with the goal at its end: the smallest environment in which an agent has to go somewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array


class CorridorGame(Game):
    """The corridor: 1 goes towards the end, 0 goes back, and an episode ends with the goal.

    Settings: `corridor_length` (10), `goal_reward` (1.0), `step_reward` (0.0, of each other step), `max_episode_steps`
    (None).
    """

    defaults = {"corridor_length": 10, "goal_reward": 1.0, "step_reward": 0.0, "max_episode_steps": None}  # noqa: RUF012
    arrays = ("position",)
    position: Array
    """int64 [lanes]."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.set_corridor_length(self.settings["corridor_length"])
        self.action_space = spaces.Discrete(2)

    def set_corridor_length(self, length: int) -> None:
        """Put the goal elsewhere; the space of observations grows with it."""
        if int(length) < 1:
            raise EnvError(f"corridor_length is {length!r}, but a corridor has at least one step")
        self.settings["corridor_length"] = int(length)
        self.observation_space = spaces.Box(0.0, float(length), (1,), np.float32)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.position = np.zeros(lanes, np.int64)

    def begin(self, lane: int, generator: Generator) -> None:
        """Put the agent at the beginning."""
        self.position[lane] = 0

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Go one step: 1 towards the end, 0 back."""
        np.maximum(self.position + np.where(actions == 1, 1, -1), 0, out=self.position)
        terminateds = self.position >= self.settings["corridor_length"]
        return np.where(terminateds, self.settings["goal_reward"], self.settings["step_reward"]), terminateds

    def observe(self, lanes: Any) -> Array:
        """Return the positions, float32 [lanes, 1]."""
        seen: Array = self.position[lanes, None].astype(np.float32)
        return seen


class SimpleCorridor(SingleEnv):
    """One corridor."""

    game_class = CorridorGame

    def set_corridor_length(self, length: int) -> None:
        """Put the goal elsewhere."""
        assert isinstance(self.game, CorridorGame)
        self.game.set_corridor_length(length)
        self.observation_space = self.game.observation_space
