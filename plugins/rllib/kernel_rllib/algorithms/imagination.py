"""Episodes that models of an environment imagine: all of all models at once, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.module_to_env import ModuleToEnv
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment, empty_ends
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.making import close
from kernel_rllib.envs.registry import EnvMaker
from kernel_rllib.errors import EnvError
from kernel_rllib.learners.dynamics import Dynamics
from kernel_rllib.learners.learner import Learner
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.training.spaces import Spaces

MOST = 1000.0
"""The largest absolute value of what models may imagine to be observed."""


class RewardFunction:
    """The rewards of transitions, as an environment tells them."""

    def __init__(self, maker: EnvMaker, env_config: Mapping[str, Any]) -> None:
        """Make the environment. Raises EnvError if it tells no rewards."""
        self._name, self._env = maker.name, maker(EnvContext(env_config))
        inside = getattr(self._env, "unwrapped", self._env)
        self._reward = next((e.reward for e in (self._env, inside) if callable(getattr(e, "reward", None))), None)
        if self._reward is None:
            raise EnvError(
                f"environment {self._name!r} does not tell what imagined transitions earn: define reward(obs, action, "
                "obs_next), of arrays with a row for each transition, that returns an array [N]"
            )

    def __call__(self, obs: Array, actions: Array, following: Array) -> Array:
        """Return the rewards [N]. Raises EnvError if the environment returns something else."""
        assert self._reward is not None
        found = np.asarray(self._reward(obs, actions, following), np.float32)
        if found.shape != (len(obs),):
            raise EnvError(
                f"reward() of environment {self._name!r} returned an array of shape {found.shape} for {len(obs)} "
                f"transitions: return one of shape ({len(obs)},)"
            )
        return found

    def close(self) -> None:
        """Let go of the environment."""
        close(self._env)


class Imagination:
    """Lets policies act in what models predict."""

    def __init__(
        self,
        dynamics: Dynamics,
        reward: RewardFunction,
        distribution: Distribution,
        module_to_env: ModuleToEnv,
        spaces: Spaces,
        *,
        clip_rewards: Callable[[Array], Array] | None = None,
    ) -> None:
        """Imagine with these models.

        Args:
            dynamics: The models.
            reward: The function that returns the rewards of transitions.
            distribution: The distribution of choices.
            module_to_env: The connectors that make the environment's actions of choices.
            spaces: The environment's spaces of observations and actions.
            clip_rewards: The function that returns the rewards that are learned from; None for rewards as they are.
        """
        self.dynamics, self.reward = dynamics, reward
        self._distribution, self._module_to_env, self._clip_rewards = distribution, module_to_env, clip_rewards
        self._choices = int(spaces.action.n) if isinstance(spaces.action, Discrete) else None
        self._first = int(spaces.action.start) if isinstance(spaces.action, Discrete) else 0
        space: Any = spaces.observation
        self._low, self._high = np.maximum(space.low, -MOST), np.minimum(space.high, MOST)

    def seen_actions(self, choices: Array) -> Array:
        """Return choices [N, ...] as models see them [N, A]: the environment's actions, discrete ones one-hot."""
        return self._seen(self._module_to_env(choices))

    def play(
        self, learner: Learner, vectors: Sequence[Array], starts: Array, steps: int, stream: np.random.Generator
    ) -> list[Fragment]:
        """Return what each model imagines: all its episodes, of equal length, beside one another.

        Args:
            learner: The learner that has the policy's module, and a backend.
            vectors: The parameters that act in each model [size].
            starts: The first observation of each episode [E, N, S]: of E models, N episodes, S numbers.
            steps: The length of an episode, in steps.
            stream: The generator of random numbers that choices are drawn by.
        """
        models, lanes = starts.shape[:2]
        own = [learner.backend.vector(vector) for vector in vectors]
        record: dict[str, list[Array]] = {}
        obs = starts
        for _ in range(steps):
            chosen = [self._choose(learner, *each, stream) for each in zip(own, obs, strict=True)]
            row = {name: np.stack([one[name] for one in chosen]) for name in chosen[0]}
            flat = row[columns.ACTIONS].reshape(models * lanes, *row[columns.ACTIONS].shape[2:])
            actions = self._module_to_env(flat)
            seen = self._seen(actions).reshape(models, lanes, -1)
            following = np.clip(self.dynamics.predict(obs, seen), self._low, self._high).astype(np.float32)
            flat_obs, flat_next = (each.reshape(models * lanes, -1) for each in (obs, following))
            rewards = self.reward(flat_obs, actions, flat_next).reshape(models, lanes)
            row |= {columns.OBS: obs, columns.REWARDS: rewards}
            for name, value in row.items():
                record.setdefault(name, []).append(value)
            obs = following
        stacked = {name: np.stack(parts, axis=1) for name, parts in record.items()}  # [E, T, N, ...]
        return [self._fragment({name: column[k] for name, column in stacked.items()}, obs[k]) for k in range(models)]

    def _choose(self, learner: Learner, vector: Any, obs: Array, stream: np.random.Generator) -> dict[str, Array]:
        noise, count = self._distribution.noise, len(obs)
        draw = stream.standard_normal if noise.kind == "normal" else stream.random
        drawn = draw((count, noise.width), np.float32)
        module, distribution = learner.module, self._distribution

        def chosen(nn: Ops, parameters: Parameters) -> tuple[Any, Any, Any]:
            inputs = module.explore(nn, parameters, {columns.OBS: obs})[columns.ACTION_DIST_INPUTS]
            return (inputs, *distribution.sample_and_log_prob(nn, inputs, drawn))

        inputs, actions, log_probs = (np.asarray(each) for each in learner.evaluate(chosen, vector))
        return {
            columns.ACTION_DIST_INPUTS: inputs,
            columns.ACTIONS: actions,
            columns.ACTION_LOGP: log_probs,
        }

    def _seen(self, actions: Any) -> Array:
        """Return actions of the environment as models see them."""
        if self._choices is not None:
            return np.eye(self._choices, dtype=np.float32)[np.asarray(actions, np.int64) - self._first]
        return np.asarray(actions, np.float32).reshape(len(actions), -1)

    def _fragment(self, found: dict[str, Array], last: Array) -> Fragment:
        """Return episodes as a fragment that a time limit of nobody's has cut."""
        rewards = found[columns.REWARDS]
        if self._clip_rewards is not None:
            found[columns.REWARDS] = self._clip_rewards(rewards.ravel()).reshape(rewards.shape).astype(np.float32)
        nothing = np.zeros(rewards.shape, bool)
        final_at, final_obs = empty_ends(last.shape[1:], last.dtype)
        ends = {columns.TERMINATEDS: nothing, columns.TRUNCATEDS: nothing.copy()}
        return Fragment({**found, **ends}, last, final_at, final_obs, np.arange(rewards.shape[1]))
