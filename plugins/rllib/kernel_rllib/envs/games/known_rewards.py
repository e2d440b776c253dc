"""Environments that tell what any transition earns, for algorithms that learn the rest: Pendulum and CartPole."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from kernel_rllib.spaces.nested import Array

_MOST_TORQUE = 2.0


class PendulumWithReward(PendulumEnv):
    """Gymnasium's Pendulum, with its reward as a function of arrays. `horizon` sets a time limit."""

    def __init__(self, settings: Any = None) -> None:
        """Make one; `settings` may have `g`, gravity (10)."""
        super().__init__(g=float((settings or {}).get("g", 10.0)))

    def reward(self, obs: Array, action: Array, obs_next: Array) -> Array:
        """Return the rewards [N] of transitions, each argument [N, ...]: by where they begin, and the action."""
        angle = np.arctan2(obs[:, 1], obs[:, 0])
        torque = np.clip(action[:, 0], -_MOST_TORQUE, _MOST_TORQUE)
        found: Array = -(np.square(angle) + 0.1 * np.square(obs[:, 2]) + 0.001 * np.square(torque))
        return found


class CartPoleWithReward(CartPoleEnv):
    """Gymnasium's CartPole, with its reward as a function of arrays: 1 while the pole is up. `horizon` ends it."""

    def __init__(self, settings: Any = None) -> None:
        """Make one; it has no settings."""
        super().__init__()

    def reward(self, obs: Array, action: Array, obs_next: Array) -> Array:
        """Return the rewards [N] of transitions, each argument [N, ...]: 1 where the pole is up afterwards."""
        is_up = (np.abs(obs_next[:, 0]) < self.x_threshold) & (np.abs(obs_next[:, 2]) < self.theta_threshold_radians)
        return is_up.astype(np.float32)
