"""Environments without rules, for tests: any spaces with random numbers, and a counter that says which step it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.multi_agent import MultiAgentEnv
from kernel_rllib.errors import EnvError


class RandomEnv(gymnasium.Env[Any, Any]):
    """Returns samples of its spaces, whatever the actions are.

    env_config: `observation_space` (Discrete(2)), `action_space` (Discrete(2)), `reward_space` (Box(-1, 1, ())),
    `p_terminated` (0.1, how likely each step is the last one; also `p_done`), `max_episode_len` (None),
    `check_action_bounds` (False: True raises EnvError for an action outside of the space), `static_samples` (False:
    True returns the same observation and reward each time).
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = env_config or {}
        self.observation_space = config.get("observation_space", spaces.Discrete(2))
        self.action_space = config.get("action_space", spaces.Discrete(2))
        self.reward_space = config.get("reward_space", spaces.Box(-1.0, 1.0, (), np.float32))
        self._p_terminated = float(config.get("p_terminated", config.get("p_done", 0.1)))
        self._most = config.get("max_episode_len")
        self._checks = bool(config.get("check_action_bounds", False))
        self._static = bool(config.get("static_samples", False))
        self._sample = (self.observation_space.sample(), self.reward_space.sample()) if self._static else None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with a random observation."""
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
            self.reward_space.seed(seed + 1)
            if self._static:
                self._sample = self.observation_space.sample(), self.reward_space.sample()
        self._steps = 0
        return self._drawn()[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return random values."""
        if self._checks and not self.action_space.contains(action):
            raise EnvError(f"RandomEnv.step() got the action {action!r}, which is not in {self.action_space}")
        self._steps += 1
        obs, reward = self._drawn()
        terminated = bool(self.np_random.random() < self._p_terminated)
        return obs, float(np.asarray(reward)), terminated, self._most is not None and self._steps >= self._most, {}

    def _drawn(self) -> tuple[Any, Any]:
        return self._sample or (self.observation_space.sample(), self.reward_space.sample())


class DebugCounterEnv(gymnasium.Env[Any, Any]):
    """Shows which step it is; the reward is its remainder by 3, and an episode has `start_at_t` (0) to 15 steps."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 100, (1,), np.float32)
    _LENGTH = 15

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        self._start = int((env_config or {}).get("start_at_t", 0))
        self._count = self._start

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin to count."""
        super().reset(seed=seed)
        self._count = self._start
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count on."""
        self._count += 1
        return self._seen(), float(self._count % 3), False, self._count >= self._LENGTH + self._start, {}

    def _seen(self) -> Any:
        return np.array([self._count], np.float32)


class RandomMultiAgentEnv(MultiAgentEnv):
    """Several agents, each with a `RandomEnv` of its own. env_config: `num_agents` (1), and that of RandomEnv."""

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        config = dict(env_config or {})
        self._envs = {agent: RandomEnv(config) for agent in range(int(config.pop("num_agents", 1)))}
        self.agents = self.possible_agents = list(self._envs)
        self.observation_spaces = {agent: env.observation_space for agent, env in self._envs.items()}
        self.action_spaces = {agent: env.action_space for agent, env in self._envs.items()}
        self._alive: set[int] = set()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode of all agents."""
        self._alive = set(self._envs)
        seeds = {agent: None if seed is None else seed + 7919 * agent for agent in self._envs}
        return {agent: env.reset(seed=seeds[agent])[0] for agent, env in self._envs.items()}, {}

    def step(  # type: ignore[override]
        self, action_dict: Mapping[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """Step the agents that have an action; an agent whose episode ended is gone."""
        results = {agent: self._envs[agent].step(action) for agent, action in action_dict.items()}
        terminateds = {agent: result[2] for agent, result in results.items()}
        truncateds = {agent: result[3] for agent, result in results.items()}
        self._alive -= {agent for agent in results if terminateds[agent] or truncateds[agent]}
        terminateds["__all__"] = not self._alive
        truncateds["__all__"] = False
        obs = {agent: result[0] for agent, result in results.items()}
        return obs, {agent: result[1] for agent, result in results.items()}, terminateds, truncateds, {}
