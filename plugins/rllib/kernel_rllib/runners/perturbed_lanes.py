"""Lanes that act by perturbed parameters: each by noise of its own, drawn when an episode begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.exploration.parameter_noise import ParameterNoise
from kernel_rllib.modules.module import Module
from kernel_rllib.nn import philox
from kernel_rllib.nn.ops import Ops

NONE = -1
"""The step at which the noise of a lane was drawn that has none yet."""


class PerturbedLanes:
    """Computes what a module gives for lanes with perturbed parameters, and adapts how far these are perturbed.

    Noise and its deviation are those of a lane: neither depends on which other lanes a runner has.
    """

    def __init__(self, exploration: ParameterNoise, module: Module, nn: Ops, seed: int, lanes: Array) -> None:
        """Perturb the parameters of a module.

        Args:
            exploration: The exploration, which says how far.
            module: The module; it remembers nothing from step to step.
            nn: The operations.
            seed: The seed of the run.
            lanes: The numbers of the lanes among all of the run [L].
        """
        self._exploration, self._module, self._nn = exploration, module, nn
        self._seed, self._lanes = seed, lanes
        count = len(lanes)
        self.stddev = np.full(count, exploration.initial_stddev, np.float64)
        """The deviations of the noise of lanes [L]."""
        self._drawn_at = np.full(count, NONE, np.int64)
        self._is_stale = np.ones(count, bool)
        self._vectors = np.zeros((count, module.table.size), np.float32)
        self._parameters = [module.table.views(vector) for vector in self._vectors]
        self._apart, self._steps = np.zeros(count), np.zeros(count, np.int64)
        self._since: list[Array] | None = None

    def outputs(
        self,
        forward: Callable[..., Mapping[str, Any]],
        parameters: tuple[Array, Mapping[str, Any]],
        inputs: Mapping[str, Any],
        made: Array,
    ) -> dict[str, Any]:
        """Return what the module gives for each lane with its perturbed parameters, [L, ...] each.

        Args:
            forward: The method of the module that is asked.
            parameters: Its own parameters: the vector of all, and views of it by their names.
            inputs: The inputs of all lanes, filled up to a multiple of the module's block of rows.
            made: The number of steps that each lane has made before [L].
        """
        vector, own = parameters
        usual = forward(self._nn, own, inputs)
        each = [self._of_lane(forward, position, vector, inputs, made) for position in range(len(self._lanes))]
        found = {name: np.concatenate([np.asarray(outputs[name])[:1] for outputs in each]) for name in usual}
        shown = {name: np.asarray(value)[: len(self._lanes)] for name, value in usual.items()}
        self._apart += self._exploration.apart(self._nn, shown, found)
        self._steps += 1
        if self._since is not None:
            self._since.append(self.stddev)
        return found

    def begin(self, positions: Any) -> None:
        """Let lanes draw noise anew before their next steps."""
        self._drawn_at[positions], self._is_stale[positions] = NONE, True
        self._apart[positions], self._steps[positions] = 0, 0

    def end(self, positions: list[int], timestep: int) -> None:
        """Adapt the deviations of lanes whose episodes have ended."""
        apart = self._apart[positions] / np.maximum(self._steps[positions], 1)
        self.stddev = self.stddev.copy()
        self.stddev[positions] = self._exploration.adapted(self.stddev[positions], apart, timestep)
        if self._since is not None:
            self._since[-1] = self.stddev

    def weights_changed(self) -> None:
        """Let lanes perturb the parameters of now from their next step on, by the noise that they have."""
        self._is_stale[:] = True

    def remember(self) -> None:
        """Remember deviations from now on, for `forget_after`."""
        self._since = []

    def forget_after(self, ends: Array) -> None:
        """Have the deviations of lanes after so many steps [L] since `remember`: later episodes do not count."""
        assert self._since is not None
        self.stddev = np.stack(self._since)[ends - 1, np.arange(len(ends))]
        self._since = None

    def state(self, position: int) -> dict[str, Any]:
        """Return what a lane needs to go on elsewhere."""
        return {
            "stddev": float(self.stddev[position]),
            "drawn_at": int(self._drawn_at[position]),
            "apart": float(self._apart[position]),
            "steps": int(self._steps[position]),
        }

    def set_state(self, position: int, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self.stddev = self.stddev.copy()
        self.stddev[position] = state["stddev"]
        self._drawn_at[position], self._is_stale[position] = state["drawn_at"], True
        self._apart[position], self._steps[position] = state["apart"], state["steps"]

    def _of_lane(
        self, forward: Callable[..., Any], position: int, vector: Array, inputs: Mapping[str, Any], made: Array
    ) -> Mapping[str, Any]:
        """Return what the module gives for one lane, in the first row."""
        if self._is_stale[position]:
            self._perturb(position, vector, int(made[position]))
        rows = {name: np.zeros_like(value[: self._module.row_block]) for name, value in inputs.items()}
        for name, value in rows.items():
            value[0] = inputs[name][position]
        outputs: Mapping[str, Any] = forward(self._nn, self._parameters[position], rows)
        return outputs

    def _perturb(self, position: int, vector: Array, made: int) -> None:
        if self._drawn_at[position] == NONE:
            self._drawn_at[position] = made
        drawn, lane = int(self._drawn_at[position]), int(self._lanes[position])
        noise = philox.normals(self._seed, lane, "parameter noise", drawn, 1, len(vector))[0]
        np.multiply(noise, np.float32(self.stddev[position]), out=self._vectors[position])
        self._vectors[position] += vector
        self._is_stale[position] = False
