"""Noise on the parameters of a policy, the same for a whole episode, of a size that adapts.

Plappert et al. 2017, "Parameter space noise for exploration", arXiv 1706.01905. What is perturbed is consistent: an
agent does the same where it sees the same. Runners draw and apply the noise (`runners.perturbed_lanes`); what is here
says how large it begins, how far it has moved a policy, and how far it should.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.exploration.exploration import Exploration, NoiseProcess, PerRunner
from kernel_rllib.nn.ops import Ops

STEP = 1.01
"""What the deviation is multiplied with, or divided by, after an episode (section 3)."""


class ParameterNoise(ABC):
    """Leaves the choice of actions to another exploration, and has the parameters perturbed that it chooses by."""

    def __init__(self, then: Any, initial_stddev: float) -> None:
        """Perturb parameters.

        Args:
            then: The exploration that chooses by the outputs of perturbed parameters.
            initial_stddev: The standard deviation of the noise in a lane's first episode.
        """
        self.then: Exploration = then
        self.initial_stddev = initial_stddev
        self.noise = then.noise
        self.keeps: Sequence[str] = then.keeps

    @abstractmethod
    def apart(self, nn: Ops, usual: Mapping[str, Any], perturbed: Mapping[str, Any]) -> Array:
        """Return for each lane [L] how far the choices of a step are apart, as a number whose mean counts.

        Args:
            nn: The operations.
            usual: The outputs of the module with its own parameters, [L, ...] each.
            perturbed: Those with perturbed ones.
        """

    @abstractmethod
    def is_near(self, apart: Array, timestep: int) -> Array:
        """Return whether choices were nearer than they should be [L], by the means of `apart` over episodes [L].

        Args:
            apart: The means.
            timestep: The number of steps that all lanes of the run have made.
        """

    def adapted(self, stddev: Array, apart: Array, timestep: int) -> Array:
        """Return the deviations [L] after an episode: greater where choices were near, and else smaller (equation 3).

        The arguments are those of `is_near`, and the deviations in that episode [L].
        """
        adapted: Array = np.where(self.is_near(apart, timestep), stddev * STEP, stddev / STEP)
        return adapted

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return what the other exploration chooses."""
        return self.then.choose(nn, outputs, noise, timestep)

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return what the other exploration thinks best."""
        return self.then.best(nn, outputs)

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return what the other exploration records."""
        return self.then.recorded(nn, chosen)

    def memory(self) -> Mapping[str, tuple[int, ...]]:
        """Return what the other exploration remembers."""
        return self.then.memory() if isinstance(self.then, NoiseProcess) else {}

    def advance(self, memory: Mapping[str, Array], noise: Array, timestep: int) -> Array:
        """Let the noise of the other exploration move on."""
        return self.then.advance(memory, noise, timestep) if isinstance(self.then, NoiseProcess) else noise

    def of_runner(self, index: int, runners: int) -> ParameterNoise:
        """Return the exploration of one runner, where the other one has one for each."""
        if not isinstance(self.then, PerRunner):
            return self
        made = copy.copy(self)
        made.then = self.then.of_runner(index, runners)
        return made

    def info(self, timestep: int) -> dict[str, float]:
        """Return what the other exploration tells."""
        tell = getattr(self.then, "info", None)
        return {} if tell is None else dict(tell(timestep))


class ParameterNoiseOfValues(ParameterNoise):
    """Perturbs networks of action values, as far as epsilon-greedy choices would be from greedy ones."""

    def __init__(self, then: Any, initial_stddev: float, actions: int) -> None:
        """Perturb the parameters by which `then`, an epsilon-greedy exploration of `actions` actions, chooses."""
        super().__init__(then, initial_stddev)
        self._actions = actions

    def apart(self, nn: Ops, usual: Mapping[str, Any], perturbed: Mapping[str, Any]) -> Array:
        """Return the divergence KL(softmax Q, softmax of perturbed Q) [L] (appendix C.1)."""
        logs, others = (nn.log_softmax(found[columns.Q_VALUES]) for found in (usual, perturbed))
        allowed = logs > -np.inf
        terms = np.exp(logs) * np.where(allowed, logs - np.where(allowed, others, 0), 0)
        divergences: Array = terms.sum(axis=-1)
        return divergences

    def is_near(self, apart: Array, timestep: int) -> Array:
        """Return whether the divergence is at most that of greedy from epsilon-greedy choices: -log(1 - e + e / A)."""
        epsilon = self.info(timestep)["cur_epsilon"]
        near: Array = apart <= -math.log(1 - epsilon + epsilon / self._actions)
        return near


class ParameterNoiseOfActions(ParameterNoise):
    """Perturbs policies of continuous actions, as far as noise of a deviation would move these."""

    def __init__(self, then: Any, initial_stddev: float, distribution: Distribution, target: float) -> None:
        """Perturb parameters.

        Args:
            then: The exploration that chooses by the outputs of perturbed parameters.
            initial_stddev: The standard deviation of the noise in a lane's first episode.
            distribution: The distribution, which makes actions of the policy's outputs.
            target: The deviation of noise on actions that moves them as far.
        """
        super().__init__(then, initial_stddev)
        self._distribution, self._target = distribution, target

    def apart(self, nn: Ops, usual: Mapping[str, Any], perturbed: Mapping[str, Any]) -> Array:
        """Return the mean square of what actions differ by [L] (appendix C.1)."""
        first, second = (self._distribution.mode(nn, found[columns.ACTION_DIST_INPUTS]) for found in (usual, perturbed))
        squares: Array = np.square(np.asarray(first) - np.asarray(second)).mean(axis=-1)
        return squares

    def is_near(self, apart: Array, timestep: int) -> Array:
        """Return whether the root of the mean square is at most the deviation that noise on actions would have."""
        near: Array = np.sqrt(apart) <= self._target
        return near
