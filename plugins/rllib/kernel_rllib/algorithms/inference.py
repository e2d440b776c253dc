"""Acting outside of training: actions for observations that somebody brings, by the learner's parameters of now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.exploration.exploration import NoExploration, NoiseProcess
from kernel_rllib.learners.learner import Learner
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.encode import Encoder


class Inference:
    """Chooses actions as runners do, one call at a time."""

    def __init__(self, blueprint: Blueprint, learner: Learner, stream: np.random.Generator) -> None:
        """Act with the parameters that the learner has when it is asked; draw from `stream`."""
        self._learner, self._stream = learner, stream
        self._exploring = blueprint.exploration
        self._encoder = Encoder(blueprint.observation_space, "the caller")
        self._env_to_module = blueprint.make_env_to_module()
        self._module_to_env = blueprint.make_module_to_env()
        self._action_space = blueprint.action_space

    def actions(
        self, observations: Sequence[Any], *, explore: bool, timestep: int = 0, state: Mapping[str, Array] | None = None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return an action for each observation, and what else the module gave.

        Args:
            observations: As environments return them.
            explore: Whether actions are drawn as while training.
            timestep: How many steps the run has made: explorations go by it.
            state: What a recurrent module remembers, arrays [N, ...]; None for nothing yet.

        Raises:
            SpaceError: If an observation is not of the space.
        """
        rows = self._env_to_module(self._encoder.batch(observations, "compute_actions"))
        inputs: dict[str, Any] = {columns.OBS: rows}
        if self._learner.module.state():
            inputs[columns.STATE_IN] = state or self.initial_state(len(rows))
        exploration = self._exploring if explore else NoExploration(self._exploring)
        noise = self._noise(exploration.noise.kind, len(rows), exploration.noise.width)
        if isinstance(exploration, NoiseProcess):  # as in the first step of an episode
            begins = {name: np.zeros((len(rows), *shape), np.float32) for name, shape in exploration.memory().items()}
            noise = exploration.advance(begins, noise, timestep)
        module = self._learner.module
        if explore and module.noise_width:
            inputs[columns.NOISE] = self._noise("normal", len(rows), module.noise_width)
        forward = module.explore if explore else module.infer

        def act(nn: Ops, parameters: Parameters) -> tuple[Array, dict[str, Any]]:
            outputs = forward(nn, parameters, inputs)
            return exploration.choose(nn, outputs, noise, timestep), outputs

        chosen, outputs = self._learner.evaluate(act)
        return nested.unstack(self._action_space, self._module_to_env(chosen)), outputs

    def initial_state(self, count: int = 1) -> dict[str, Array]:
        """Return what a recurrent module remembers at first, arrays [count, ...]."""
        state = self._learner.module.state()
        return {name: np.zeros((count, *shape), np.float32) for name, shape in state.items()}

    def _noise(self, kind: str, count: int, width: int) -> Array:
        if kind == "normal":
            return self._stream.standard_normal((count, width), np.float32)
        return self._stream.random((count, width), np.float32)
