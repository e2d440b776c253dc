"""An environment of several agents that act by turns, and come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.multi_agent import ALL, Dicts, MultiAgentEnv


class TakingTurns(MultiAgentEnv):
    """Agents 0 and 1 act by turns, for a number of rounds that is drawn; 1 comes in later, and may leave before.

    Each is rewarded for what the other did: 1 for the action 1, in the turn of the other.
    """

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        self.agents = self.possible_agents = [0, 1]
        self._generator = np.random.default_rng(0)
        self._turn = self._rounds = self._leaves = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin with agent 0."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._turn = 0
        self._rounds = int(self._generator.integers(6, 14))
        self._leaves = int(self._generator.integers(4, 14))
        return {0: self._seen()}, {}

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Do what the one does whose turn it is, and let the other see it, as long as both are there."""
        ((actor, action),) = action_dict.items()
        self._turn += 1
        over = self._turn >= self._rounds
        here = self._turn < self._leaves
        following = 1 - actor if here else 0
        rewards = {following: float(action)}
        ends = {1: True} if self._turn == self._leaves and actor == 1 else {}
        if self._turn == self._leaves and actor == 0:
            following = 0
        obs = {0: self._seen(), 1: self._seen()} if over else {following: self._seen()}
        return obs, rewards, {**ends, ALL: over}, {ALL: False}, {}

    def _seen(self) -> np.ndarray:
        return self._generator.uniform(-1.0, 1.0, 3).astype(np.float32)
