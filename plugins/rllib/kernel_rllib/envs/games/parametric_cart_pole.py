"""The pole on a cart, where actions are told by what they look like: in each step they are other ones of many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.games.cart_pole import CartPole
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array

EMBEDDING_SIZE = 2


class ParametricActionsCartPole(gymnasium.Env[Any, Any]):
    """In each step two of `max_avail_actions` actions may be taken: one pushes to the left, one to the right.

    An observation is a dict: `action_mask` [max_avail_actions], 1 where an action may be taken; `avail_actions`
    [max_avail_actions, 2], the vectors of actions, by which one sees what they do, and zeros for the others; `cart`,
    what the pole on the cart shows. env_config: `max_avail_actions` (10), `embeddings_seed` (0: of the two vectors),
    `max_episode_steps` (500).
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = dict(env_config or {})
        self._count = int(config.get("max_avail_actions", 10))
        if self._count < 2:
            raise EnvError(f"max_avail_actions is {self._count}, but there are two actions: left and right")
        self.cart_pole = CartPole({"max_episode_steps": config.get("max_episode_steps", 500)})
        self.vectors = np.random.default_rng(config.get("embeddings_seed", 0)).normal(size=(2, EMBEDDING_SIZE))
        """The vectors of left and right [2, 2]."""
        self.action_space = spaces.Discrete(self._count)
        self.observation_space = spaces.Dict({
            "action_mask": spaces.Box(0.0, 1.0, (self._count,), np.float32),
            "avail_actions": spaces.Box(-10.0, 10.0, (self._count, EMBEDDING_SIZE), np.float32),
            "cart": self.cart_pole.observation_space,
        })  # fmt: skip
        self._places = np.zeros(2, np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        cart, told = self.cart_pole.reset(seed=seed)
        return self._seen(cart), told

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Push the cart. Raises EnvError for an action that may not be taken now."""
        found = np.flatnonzero(self._places == action)
        if not len(found):
            raise EnvError(
                f"action {action} may not be taken now, but {self._places.tolist()}: observations say so in action_mask"
            )
        cart, reward, terminated, truncated, told = self.cart_pole.step(int(found[0]))
        return self._seen(cart), reward, terminated, truncated, told

    def _seen(self, cart: Array) -> dict[str, Array]:
        """Draw which actions may be taken now, and return what is seen."""
        self._places = self.np_random.choice(self._count, 2, replace=False)
        mask = np.zeros(self._count, np.float32)
        vectors = np.zeros((self._count, EMBEDDING_SIZE), np.float32)
        mask[self._places], vectors[self._places] = 1, self.vectors
        return {"action_mask": mask, "avail_actions": vectors, "cart": cart}
