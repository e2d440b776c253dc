"""The pole on a cart, where an episode is paid for at its end only, and a search may go back to any of its states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.games.cart_pole import CartPoleGame
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array

_GRAVITY = 9.8
_POLE, _TOTAL = 0.1, 1.1
"""The masses of the pole, and of all."""
_HALF_LENGTH = 0.5
_FORCE, _SECONDS = 10.0, 0.02
_MOST_ANGLE, _MOST_POSITION = 12 * 2 * math.pi / 360, 2.4


class CartState(NamedTuple):
    """Where an episode is."""

    position: float
    velocity: float
    angle: float
    angular_velocity: float
    steps: int


class CartPoleSparseRewards(gymnasium.Env[Any, Any]):
    """CartPole whose last step is worth the number of all steps, and the others nothing.

    An observation is a dict: `obs`, as CartPole's, and `action_mask`, which allows both pushes. `get_state` returns
    where the episode is, `set_state` goes back there. env_config: `max_episode_steps` (200).
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = dict(env_config or {})
        self._most = int(config.get("max_episode_steps", 200))
        if self._most < 1:
            raise EnvError(f"max_episode_steps is {self._most}, but an episode has one step or more")
        self.action_space = spaces.Discrete(2)
        seen = CartPoleGame().observation_space
        self.observation_space = spaces.Dict({"action_mask": spaces.Box(0.0, 1.0, (2,), np.float32), "obs": seen})
        self._mask = np.ones(2, np.float32)
        self._state = CartState(0.0, 0.0, 0.0, 0.0, 0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put the cart near the middle, and the pole nearly upright."""
        super().reset(seed=seed)
        x, x_dot, theta, theta_dot = self.np_random.uniform(-0.05, 0.05, size=(4,)).tolist()
        self._state = CartState(x, x_dot, theta, theta_dot, 0)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Push the cart: 0 to the left, 1 to the right."""
        x, x_dot, theta, theta_dot, steps = self._state
        force = _FORCE if action == 1 else -_FORCE
        sin, cos = math.sin(theta), math.cos(theta)
        swing = (force + _POLE * _HALF_LENGTH * theta_dot**2 * sin) / _TOTAL
        theta_acc = (_GRAVITY * sin - cos * swing) / (_HALF_LENGTH * (4.0 / 3.0 - _POLE * cos**2 / _TOTAL))
        x_acc = swing - _POLE * _HALF_LENGTH * theta_acc * cos / _TOTAL
        x, x_dot = x + _SECONDS * x_dot, x_dot + _SECONDS * x_acc
        theta, theta_dot = theta + _SECONDS * theta_dot, theta_dot + _SECONDS * theta_acc
        self._state = CartState(x, x_dot, theta, theta_dot, steps + 1)
        fallen = abs(x) > _MOST_POSITION or abs(theta) > _MOST_ANGLE
        over = fallen or steps + 1 >= self._most
        return self._seen(), float(steps + 1) if over else 0.0, fallen, over and not fallen, {}

    def get_state(self) -> CartState:
        """Return where the episode is."""
        return self._state

    def set_state(self, state: CartState) -> dict[str, Array]:
        """Go back to a state, and return what is observed there."""
        self._state = state
        return self._seen()

    def _seen(self) -> dict[str, Array]:
        return {"action_mask": self._mask, "obs": np.array(self._state[:4], np.float32)}
