"""Bandits with a context: what is seen says which arm is best, and no arm changes what is seen next.

Each step is an episode. What is told of it (`info`) has its `regret`: how much more the best arm was worth, on average,
than the one that was pulled.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array

REGRET = "regret"
"""The key of an info under which the regret of a step is."""


class ContextualBanditGame(Game):
    """The base of contextual bandits. Derive from it, and define `width`, `arms`, and the methods that raise here."""

    arrays = ("context", "regret")
    context: Array
    """float32 [width, lanes]."""
    regret: Array
    """float64 [lanes]; nan where no arm was pulled yet."""
    width: int
    """The number of columns of a context."""
    arms: int
    """The number of arms."""
    noise: ClassVar[str | None] = None
    """The setting that is the standard deviation of rewards; None: they have no noise."""

    def draw(self, generator: Generator) -> Array:
        """Return a context [width]."""
        raise NotImplementedError

    def means(self, context: Array) -> Array:
        """Return the mean rewards [arms, lanes] for contexts [width, lanes]."""
        raise NotImplementedError

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.context = np.zeros((self.width, lanes), np.float32)
        self.regret = np.full(lanes, np.nan)

    def begin(self, lane: int, generator: Generator) -> None:
        """Draw what is seen."""
        self.context[:, lane] = self.draw(generator)
        self.regret[lane] = np.nan

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Pull an arm in each lane; each episode ends."""
        means = self.means(self.context)
        rewards = means[actions, np.arange(means.shape[1])]
        self.regret[:] = means.max(axis=0) - rewards
        if self.noise is not None and self.settings[self.noise]:
            deviation = self.settings[self.noise]
            rewards = rewards + [generator.normal(0.0, deviation) for generator in generators]
        return rewards, np.ones(len(rewards), bool)

    def observe(self, lanes: Any) -> Array:
        """Return the contexts, float32 [lanes, width]."""
        return np.ascontiguousarray(self.context[:, lanes].T)

    def infos(self, lane: int) -> dict[str, Any]:
        """Return the regret of the last step."""
        regret = float(self.regret[lane])
        return {} if np.isnan(regret) else {REGRET: regret}


class SimpleContextualBanditGame(ContextualBanditGame):
    """Three arms and two contexts, [-1, 1] and [1, -1]: arm 2 brings 10 in the one, arm 0 in the other."""

    width, arms = 2, 3

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def draw(self, generator: Generator) -> Array:
        """Return one of two contexts."""
        sign = generator.choice((-1.0, 1.0))
        return np.array([sign, -sign])

    def means(self, context: Array) -> Array:
        """Return -10, 0 and 10 for the arms in the first context, and 10, 0 and -10 in the second."""
        found: Array = np.array([[10.0], [0.0], [-10.0]]) * context[0].astype(float)
        return found


class LinearDiscreteGame(ContextualBanditGame):
    """Arms whose mean rewards are linear in the context: the inner product of unit vectors, one of each arm.

    Settings: `feature_dim` (8), `num_actions` (4), `reward_noise_std` (0.01), `arms_seed` (0: of the vectors of arms).
    """

    defaults = {"feature_dim": 8, "num_actions": 4, "reward_noise_std": 0.01, "arms_seed": 0}  # noqa: RUF012
    noise = "reward_noise_std"

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.width, self.arms = int(self.settings["feature_dim"]), int(self.settings["num_actions"])
        self._vectors = _unit(np.random.default_rng(self.settings["arms_seed"]).normal(size=(self.arms, self.width)))
        self.observation_space = spaces.Box(-1.0, 1.0, (self.width,), np.float32)
        self.action_space = spaces.Discrete(self.arms)

    def draw(self, generator: Generator) -> Array:
        """Return a unit vector, all directions alike."""
        found: Array = _unit(generator.normal(size=(1, self.width)))[0]
        return found

    def means(self, context: Array) -> Array:
        """Return the inner products with the vectors of the arms."""
        found: Array = self._vectors @ context.astype(float)
        return found


class WheelBanditGame(ContextualBanditGame):
    """The wheel bandit of Riquelme et al. 2018, "Deep Bayesian bandits showdown", section 5.4.

    A context is a point of the unit disc. Arm 0 is safe: `mu_1`. The four others are worth `mu_2`, which is less; but
    where the point is farther out than `delta`, one of them, by the quadrant, is worth `mu_3`, which is far more.
    Settings: `delta` (0.5), `mu_1` (1.2), `mu_2` (1.0), `mu_3` (50.0), `std` (0.01: that of rewards).
    """

    defaults = {"delta": 0.5, "mu_1": 1.2, "mu_2": 1.0, "mu_3": 50.0, "std": 0.01}  # noqa: RUF012
    noise = "std"
    width, arms = 2, 5

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(5)

    def draw(self, generator: Generator) -> Array:
        """Return a point of the disc, all alike: the radius is the root of a uniform number."""
        radius, angle = np.sqrt(generator.random()), 2 * np.pi * generator.random()
        return np.array([radius * np.cos(angle), radius * np.sin(angle)])

    def means(self, context: Array) -> Array:
        """Return the mean rewards of the safe arm, and of those of the quadrants ++, +-, --, -+."""
        x, y = context.astype(float)
        found = np.full((self.arms, len(x)), float(self.settings["mu_2"]))
        found[0] = self.settings["mu_1"]
        right, up = x > 0, y > 0
        outside = x * x + y * y > self.settings["delta"] ** 2
        for arm, quadrant in enumerate((right & up, right & ~up, ~right & ~up, ~right & up), 1):
            found[arm, outside & quadrant] = self.settings["mu_3"]
        return found


class SimpleContextualBandit(SingleEnv):
    """Three arms and two contexts."""

    game_class = SimpleContextualBanditGame


class LinearDiscreteEnv(SingleEnv):
    """Arms whose rewards are linear in the context."""

    game_class = LinearDiscreteGame


class WheelBanditEnv(SingleEnv):
    """The wheel bandit."""

    game_class = WheelBanditGame


def _unit(vectors: Array) -> Array:
    """Return vectors [N, width] at the length 1."""
    found: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found
