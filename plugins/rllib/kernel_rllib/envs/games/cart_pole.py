"""A pole on a cart, which is to be kept upright by pushes to the left and to the right.

Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements that can solve difficult learning control problems"; the
numbers are gymnasium's, step by step and bit by bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array

_GRAVITY = 9.8
_MASS_POLE = 0.1
_TOTAL_MASS = _MASS_POLE + 1.0
_LENGTH = 0.5
"""Half the length of the pole."""
_POLE_MASS_LENGTH = _MASS_POLE * _LENGTH
_FORCE = 10.0
_SECONDS = 0.02
_MOST_ANGLE = 12 * 2 * math.pi / 360
_MOST_POSITION = 2.4


class CartPoleGame(Game):
    """Cart and pole. State: position, velocity, angle, angular velocity.

    Settings: `max_episode_steps` (500; 200 in CartPole-v0), `velocities` (True: they are seen).
    """

    defaults = {"max_episode_steps": 500, "velocities": True}  # noqa: RUF012
    arrays = ("state",)
    state: Array
    """float64 [4, lanes]."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        high = np.array([_MOST_POSITION * 2, np.inf, _MOST_ANGLE * 2, np.inf], np.float32)
        self._seen = slice(None) if self.settings["velocities"] else slice(None, None, 2)
        self.observation_space = spaces.Box(-high[self._seen], high[self._seen], dtype=np.float32)
        self.action_space = spaces.Discrete(2)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.state = np.zeros((4, lanes))

    def begin(self, lane: int, generator: Generator) -> None:
        """Put the cart near the middle, and the pole nearly upright."""
        self.state[:, lane] = generator.uniform(-0.05, 0.05, size=(4,))

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Push the carts: 0 to the left, 1 to the right. The reward is 1 for each step."""
        x, x_dot, theta, theta_dot = self.state
        force = np.where(actions == 1, _FORCE, -_FORCE)
        cos, sin = np.cos(theta), np.sin(theta)
        thrust = (force + _POLE_MASS_LENGTH * np.square(theta_dot) * sin) / _TOTAL_MASS
        theta_acceleration = (_GRAVITY * sin - cos * thrust) / (
            _LENGTH * (4.0 / 3.0 - _MASS_POLE * np.square(cos) / _TOTAL_MASS)
        )
        x_acceleration = thrust - _POLE_MASS_LENGTH * theta_acceleration * cos / _TOTAL_MASS
        x += _SECONDS * x_dot
        x_dot += _SECONDS * x_acceleration
        theta += _SECONDS * theta_dot
        theta_dot += _SECONDS * theta_acceleration
        terminateds = (np.abs(x) > _MOST_POSITION) | (np.abs(theta) > _MOST_ANGLE)
        return np.ones(len(terminateds), np.float32), terminateds

    def observe(self, lanes: Any) -> Array:
        """Return the state, or what of it is seen, float32."""
        seen: Array = self.state[self._seen, lanes].T.astype(np.float32)
        return seen


class StatelessCartPoleGame(CartPoleGame):
    """Cart and pole whose velocities are not seen: they have to be remembered from what was seen before."""

    defaults = {"max_episode_steps": 500, "velocities": False}  # noqa: RUF012


class CartPole(SingleEnv):
    """One cart with its pole."""

    game_class = CartPoleGame


class StatelessCartPole(SingleEnv):
    """One cart with its pole, without the velocities."""

    game_class = StatelessCartPoleGame
