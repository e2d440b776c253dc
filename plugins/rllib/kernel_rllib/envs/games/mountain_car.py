"""A car in a valley that is too weak to drive straight up the hill: it has to swing.

Moore 1990, "Efficient memory-based learning for robot control"; the numbers are gymnasium's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array

_LEAST_POSITION = -1.2
_MOST_POSITION = 0.6
_MOST_SPEED = 0.07
_GOAL = 0.5
_FORCE = 0.001
_GRAVITY = 0.0025


class MountainCarGame(Game):
    """The car. State: position and velocity. Settings: `max_episode_steps` (200), `goal_velocity` (0)."""

    defaults = {"max_episode_steps": 200, "goal_velocity": 0.0}  # noqa: RUF012
    arrays = ("state",)
    state: Array
    """float64 [2, lanes]."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        low, high = np.array([_LEAST_POSITION, -_MOST_SPEED]), np.array([_MOST_POSITION, _MOST_SPEED])
        self.observation_space = spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        self.action_space = spaces.Discrete(3)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.state = np.zeros((2, lanes))

    def begin(self, lane: int, generator: Generator) -> None:
        """Put the car near the bottom, at rest."""
        self.state[:, lane] = generator.uniform(-0.6, -0.4), 0.0

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Push the cars: 0 to the left, 1 not at all, 2 to the right. The reward is -1 for each step."""
        position, velocity = self.state
        velocity += (actions - 1) * _FORCE + np.cos(3 * position) * (-_GRAVITY)
        np.clip(velocity, -_MOST_SPEED, _MOST_SPEED, out=velocity)
        position += velocity
        np.clip(position, _LEAST_POSITION, _MOST_POSITION, out=position)
        velocity[(position == _LEAST_POSITION) & (velocity < 0)] = 0.0
        terminateds = (position >= _GOAL) & (velocity >= self.settings["goal_velocity"])
        return np.full(len(terminateds), -1.0, np.float32), terminateds

    def observe(self, lanes: Any) -> Array:
        """Return position and velocity, float32."""
        seen: Array = self.state[:, lanes].T.astype(np.float32)
        return seen


class MountainCar(SingleEnv):
    """One car."""

    game_class = MountainCarGame
