"""A bandit whose arms have features: each step shows other items, and one of them is recommended to a user.

Each step is an episode, and what is told of it (`info`) has its `regret`: how much more the best item shown was worth
to the user, on average, than the one that was recommended.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.envs.games.contextual_bandits import REGRET
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array


class ParametricItemGame(Game):
    """Items and users are unit vectors, and an item is worth to a user what their inner product says.

    An observation is a dict: `item`, the vectors of the items shown [num_candidates, feature_dim]; `item_id`, their
    numbers; with several users `user`, who it is. Vectors of users are not shown. Action i recommends the i-th item.
    Settings: `num_users` (1), `num_items` (100), `feature_dim` (16), `num_candidates` (25: how many items are shown),
    `reward_noise_std` (0.01), `seed` (1: of all vectors).
    """

    defaults = {  # noqa: RUF012
        "num_users": 1, "num_items": 100, "feature_dim": 16, "num_candidates": 25, "reward_noise_std": 0.01, "seed": 1,
    }  # fmt: skip
    arrays = ("shown", "user", "regret")
    shown: Array
    """int64 [num_candidates, lanes]: the numbers of the items."""
    user: Array
    """int64 [lanes]."""
    regret: Array
    """float64 [lanes]; nan where nothing was recommended yet."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._items, self._shown = int(self.settings["num_items"]), int(self.settings["num_candidates"])
        if self._shown > self._items:
            raise EnvError(
                f"num_candidates is {self._shown}, but there are only num_items={self._items} to show: make it smaller"
            )
        generator = np.random.default_rng(self.settings["seed"])
        width, users = int(self.settings["feature_dim"]), int(self.settings["num_users"])
        self.item_vectors = _unit(generator.normal(size=(self._items, width)))
        self.user_vectors = _unit(generator.normal(size=(users, width)))
        seen: dict[str, spaces.Space[Any]] = {
            "item": spaces.Box(-1.0, 1.0, (self._shown, width), np.float32),
            "item_id": spaces.MultiDiscrete([self._items] * self._shown),
        }
        if users > 1:
            seen["user"] = spaces.Discrete(users)
        self.observation_space = spaces.Dict(seen)
        self.action_space = spaces.Discrete(self._shown)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.shown = np.zeros((self._shown, lanes), np.int64)
        self.user = np.zeros(lanes, np.int64)
        self.regret = np.full(lanes, np.nan)

    def begin(self, lane: int, generator: Generator) -> None:
        """Draw a user and the items that are shown."""
        self.user[lane] = generator.integers(len(self.user_vectors))
        self.shown[:, lane] = generator.choice(self._items, self._shown, replace=False)
        self.regret[lane] = np.nan

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Recommend an item in each lane; each episode ends."""
        worth = np.einsum("clf,lf->cl", self.item_vectors[self.shown], self.user_vectors[self.user])
        rewards = worth[actions, np.arange(len(self.user))]
        self.regret[:] = worth.max(axis=0) - rewards
        deviation = self.settings["reward_noise_std"]
        if deviation:
            rewards = rewards + [generator.normal(0.0, deviation) for generator in generators]
        return rewards, np.ones(len(rewards), bool)

    def observe(self, lanes: Any) -> dict[str, Array]:
        """Return the items that are shown, and who sees them."""
        shown = self.shown[:, lanes].T
        seen = {"item": self.item_vectors[shown].astype(np.float32), "item_id": np.ascontiguousarray(shown)}
        if len(self.user_vectors) > 1:
            seen["user"] = self.user[lanes].copy()
        return seen

    def infos(self, lane: int) -> dict[str, Any]:
        """Return the regret of the last step."""
        regret = float(self.regret[lane])
        return {} if np.isnan(regret) else {REGRET: regret}


class ParametricItemRecoEnv(SingleEnv):
    """One user after the other, each of whom gets one recommendation."""

    game_class = ParametricItemGame


def _unit(vectors: Array) -> Array:
    found: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found
