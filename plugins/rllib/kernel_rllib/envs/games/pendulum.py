"""A pendulum that is to be swung up and held by a motor at its joint. The numbers are gymnasium's, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array

_MOST_SPEED = 8.0
_MOST_TORQUE = 2.0
_SECONDS = 0.05
_MASS = 1.0
_LENGTH = 1.0


class PendulumGame(Game):
    """The pendulum. State: angle (0 is upright) and angular velocity; seen are cosine, sine and velocity.

    Settings: `max_episode_steps` (200), `g` (10.0, gravity).
    """

    defaults = {"max_episode_steps": 200, "g": 10.0}  # noqa: RUF012
    arrays = ("state",)
    state: Array
    """float64 [2, lanes]."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        high = np.array([1.0, 1.0, _MOST_SPEED], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Box(-_MOST_TORQUE, _MOST_TORQUE, (1,), np.float32)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.state = np.zeros((2, lanes))

    def begin(self, lane: int, generator: Generator) -> None:
        """Let the pendulum hang anywhere, and move a little."""
        high = np.array([np.pi, 1.0])
        self.state[:, lane] = generator.uniform(-high, high)

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Turn the motors. The reward is less the farther from upright, the faster and the more torque."""
        gravity = self.settings["g"]
        theta, theta_dot = self.state
        torque = np.clip(actions, -_MOST_TORQUE, _MOST_TORQUE)[:, 0]
        angle = ((theta + np.pi) % (2 * np.pi)) - np.pi
        # Of scalars, as gymnasium has them, numpy takes the power by the C library: not always the nearest square.
        costs = np.float_power(angle, 2) + 0.1 * np.float_power(theta_dot, 2) + 0.001 * np.square(torque)
        acceleration = 3 * gravity / (2 * _LENGTH) * np.sin(theta) + 3.0 / (_MASS * _LENGTH**2) * torque
        self.state[1] = np.clip(theta_dot + acceleration * _SECONDS, -_MOST_SPEED, _MOST_SPEED)
        self.state[0] = theta + self.state[1] * _SECONDS
        return -costs, np.zeros(len(torque), bool)

    def observe(self, lanes: Any) -> Array:
        """Return cosine and sine of the angle, and the velocity, float32."""
        theta, theta_dot = self.state[:, lanes]
        return np.stack([np.cos(theta), np.sin(theta), theta_dot], axis=1, dtype=np.float32)


class Pendulum(SingleEnv):
    """One pendulum."""

    game_class = PendulumGame
