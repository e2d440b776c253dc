"""A robot of two links that swings its tip above a line, moved by a motor at the joint between them.

Sutton 1996, "Generalization in reinforcement learning: successful examples using sparse coarse coding", with the
equations of motion of Sutton and Barto's book; the numbers are gymnasium's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array

_SECONDS = 0.2
_LENGTH = 1.0
_MASS = 1.0
_CENTRE = 0.5
"""The distance of a link's centre of mass from its joint."""
_INERTIA = 1.0
_GRAVITY = 9.8
_MOST_SPEEDS = (4 * np.pi, 9 * np.pi)


class AcrobotGame(Game):
    """The robot. State: both angles and their velocities. Settings: `max_episode_steps` (500)."""

    defaults = {"max_episode_steps": 500}  # noqa: RUF012
    arrays = ("state", "fresh")
    state: Array
    """float64 [4, lanes]."""
    fresh: Array
    """bool [lanes]: at the start of an episode, where gymnasium has the state in float32."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        high = np.array([1.0, 1.0, 1.0, 1.0, *_MOST_SPEEDS], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(3)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.state = np.zeros((4, lanes))
        self.fresh = np.zeros(lanes, bool)

    def begin(self, lane: int, generator: Generator) -> None:
        """Let the robot hang nearly at rest."""
        self.state[:, lane] = generator.uniform(-0.1, 0.1, size=(4,)).astype(np.float32)
        self.fresh[lane] = True

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Turn the motors by -1, 0 or 1. The reward is -1 for each step, and 0 for the one that reaches the line."""
        torque = actions - 1.0
        state = _runge_kutta(self.state, torque)
        state[:2] = _wrapped(state[:2])
        for row, most in zip(state[2:], _MOST_SPEEDS, strict=True):
            np.clip(row, -most, most, out=row)
        self.state = state
        self.fresh[:] = False
        terminateds = -np.cos(state[0]) - np.cos(state[1] + state[0]) > 1.0
        return np.where(terminateds, 0.0, -1.0), terminateds

    def observe(self, lanes: Any) -> Array:
        """Return cosine and sine of both angles, and the velocities, float32."""
        state, fresh = self.state[:, lanes], self.fresh[lanes]
        seen = _seen(state)
        if fresh.any():
            seen[fresh] = _seen(state[:, fresh].astype(np.float32))
        return seen


class Acrobot(SingleEnv):
    """One robot."""

    game_class = AcrobotGame


def _seen(state: Array) -> Array:
    first, second, first_dot, second_dot = state
    seen = [np.cos(first), np.sin(first), np.cos(second), np.sin(second), first_dot, second_dot]
    return np.stack(seen, axis=1, dtype=np.float32)


def _wrapped(angles: Array) -> Array:
    """Return angles within [-pi, pi], by whole turns taken one by one."""
    turn = 2 * np.pi
    while (above := angles > np.pi).any():
        angles = np.where(above, angles - turn, angles)
    while (below := angles < -np.pi).any():
        angles = np.where(below, angles + turn, angles)
    return angles


def _runge_kutta(state: Array, torque: Array) -> Array:
    """Return the state after one time step, by the classical method of fourth order."""
    half = _SECONDS / 2.0
    k1 = _change(state, torque)
    k2 = _change(state + half * k1, torque)
    k3 = _change(state + half * k2, torque)
    k4 = _change(state + _SECONDS * k3, torque)
    after: Array = state + _SECONDS / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
    return after


def _change(state: Array, torque: Array) -> Array:
    """Return the rates of change of the state (Sutton and Barto, 2018, figure 11.4 and its equations)."""
    theta1, theta2, dtheta1, dtheta2 = state
    # Of scalars, as gymnasium has them, numpy takes the power by the C library: not always the nearest square.
    dtheta1_squared, dtheta2_squared = np.float_power(state[2:], 2)
    cos2, sin2 = np.cos(theta2), np.sin(theta2)
    d1 = _MASS * _CENTRE**2 + _MASS * (_LENGTH**2 + _CENTRE**2 + 2 * _LENGTH * _CENTRE * cos2) + _INERTIA + _INERTIA
    d2 = _MASS * (_CENTRE**2 + _LENGTH * _CENTRE * cos2) + _INERTIA
    phi2 = _MASS * _CENTRE * _GRAVITY * np.cos(theta1 + theta2 - np.pi / 2.0)
    phi1 = (
        -_MASS * _LENGTH * _CENTRE * dtheta2_squared * sin2
        - 2 * _MASS * _LENGTH * _CENTRE * dtheta2 * dtheta1 * sin2
        + (_MASS * _CENTRE + _MASS * _LENGTH) * _GRAVITY * np.cos(theta1 - np.pi / 2)
        + phi2
    )
    ddtheta2 = (torque + d2 / d1 * phi1 - _MASS * _LENGTH * _CENTRE * dtheta1_squared * sin2 - phi2) / (
        _MASS * _CENTRE**2 + _INERTIA - np.float_power(d2, 2) / d1
    )
    ddtheta1 = -(d2 * ddtheta2 + phi1) / d1
    return np.stack([dtheta1, dtheta2, ddtheta1, ddtheta2])
