"""Explorations of groups: each agent of a group explores by itself, as another exploration does for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.exploration.exploration import Exploration, PerRunner
from kernel_rllib.nn.ops import Ops


class OfEachAgent:
    """Chooses an action for each agent of a group by its own values, with noise of its own."""

    def __init__(self, exploration: Exploration, agents: int) -> None:
        """Choose so for each of `agents` agents."""
        self._exploration, self._agents = exploration, agents
        self.noise = Noise(exploration.noise.kind, exploration.noise.width * agents)
        self.keeps: tuple[str, ...] = ()

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return an action of each agent for each lane [L, agents]."""
        each = noise.reshape(len(noise) * self._agents, -1)
        chosen = self._exploration.choose(nn, self._by_agent(nn, outputs), each, timestep)
        return chosen.reshape(len(noise), self._agents)

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the best action of each agent for each lane [L, agents]."""
        return self._exploration.best(nn, self._by_agent(nn, outputs)).reshape(-1, self._agents)

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}

    def info(self, timestep: int) -> dict[str, float]:
        """Return what the other exploration tells."""
        tell = getattr(self._exploration, "info", None)
        return {} if tell is None else dict(tell(timestep))

    def of_runner(self, index: int, runners: int) -> OfEachAgent:
        """Return the exploration of one runner, where the other one has one for each."""
        if not isinstance(self._exploration, PerRunner):
            return self
        return OfEachAgent(self._exploration.of_runner(index, runners), self._agents)

    def _by_agent(self, nn: Ops, outputs: Mapping[str, Any]) -> dict[str, Array]:
        values = np.asarray(nn.to_numpy(outputs[columns.Q_VALUES]))
        return {columns.Q_VALUES: values.reshape(-1, values.shape[-1])}
