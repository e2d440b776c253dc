"""An environment that counts, and a random policy for it: small parts to try runners and learners with."""

from __future__ import annotations

from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.exploration.exploration import StochasticSampling
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.runners.blueprint import Blueprint, EnvSettings
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.sampler import Sampler


class Counting(gymnasium.Env[Any, Any]):
    """Observes how many steps its episode has, and a number that its seed says. Rewards are 1.

    env_config: `length` is after how many steps it ends, `cut` whether it is truncated then, `fails_at` at which step
    of the environment's life it raises.
    """

    def __init__(self, env_config: dict[str, Any]) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.length, self.cut = env_config.get("length", 4), env_config.get("cut", False)
        self.fails_at = env_config.get("fails_at")
        self.lived = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.mark, self.count = self.np_random.random(), 0
        return self._observed(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count."""
        self.lived += 1
        if self.lived == self.fails_at:
            raise RuntimeError("the counter is stuck")
        self.count += 1
        ended = self.count == self.length
        return self._observed(), 1.0, ended and not self.cut, ended and self.cut, {}

    def _observed(self) -> np.ndarray:
        return np.array([self.count, self.mark], np.float32)


def counting_blueprint(
    env_config: dict[str, Any] | None = None, *, lstm: int | None = None, restart: bool = False, seed: int = 0
) -> Blueprint:
    """Return the blueprint of samplers that act at random in `Counting`."""
    env = Counting(env_config or {})
    distribution = for_space(env.action_space)
    module = ActorCritic(2, distribution.parameter_size, options=ActorCriticOptions(hidden=(8,), lstm_cells=lstm))
    return Blueprint(
        envs=EnvSettings(env_maker(Counting), env_config or {}, restart_failed=restart),
        observation_space=env.observation_space,
        action_space=env.action_space,
        module=module,
        exploration=StochasticSampling(distribution),
        seed=seed,
    )


def counting_sampler(made: Blueprint, lanes: tuple[int, ...] = (0, 1, 2, 3), **place: Any) -> Sampler:
    """Return a sampler of some of four lanes, which acts with the module's first parameters."""
    acting = cast(Sampler, made(RunnerPlace(0, lanes, 0, 4, **place)))
    acting.set_weights(made.module.initial(np.random.default_rng(1)), 7)
    return acting
