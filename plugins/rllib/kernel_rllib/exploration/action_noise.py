"""Explorations of continuous actions: noise on what a policy gives, and random actions at first."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Distribution, Noise
from kernel_rllib.exploration.epsilon_greedy import per_worker_epsilon
from kernel_rllib.exploration.exploration import Exploration, NoiseProcess, PerRunner
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.schedules import ConstantSchedule

DRIFT = "drift"
"""The state of Ornstein-Uhlenbeck noise in a lane: its present value."""


class GaussianNoise:
    """Adds normal noise to each action, and keeps to the bounds (Fujimoto et al., 2018, section 5)."""

    keeps: tuple[str, ...] = ()

    def __init__(
        self,
        distribution: Distribution,
        bounds: tuple[Array, Array],
        *,
        stddev: float | Array,
        scale: Callable[[int], float],
    ) -> None:
        """Add noise.

        Args:
            distribution: The distribution, which makes actions of the policy's outputs.
            bounds: The lowest and the highest numbers of an action, [d] each, in the space that is learned in.
            stddev: The standard deviation of the noise, of all or of each component [d].
            scale: The factor of the noise, a function of the number of steps that all lanes have made.
        """
        self._distribution, self._scale = distribution, scale
        self._low, self._high = bounds
        self._stddev = np.asarray(stddev, np.float32)
        self.noise = Noise("normal", distribution.action_size)

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return an action for each lane [L, d]."""
        spread = self._stddev * np.float32(self._scale(timestep))
        actions: Array = np.clip(self.best(nn, outputs) + spread * noise, self._low, self._high)
        return actions

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return what the policy gives for each lane [L, d]."""
        actions: Array = self._distribution.mode(nn, outputs[columns.ACTION_DIST_INPUTS])
        return actions

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}

    def info(self, timestep: int) -> dict[str, float]:
        """Return what noise is multiplied with after so many steps."""
        return {"cur_scale": float(self._scale(timestep))}


class OrnsteinUhlenbeckNoise(GaussianNoise):
    """Adds noise that drifts, and is drawn back to zero (Lillicrap et al., 2015, section 7).

    It is x(t + 1) = x(t) - theta x(t) + sigma N(0, 1), begins at zero in each episode, and is added to actions times
    `base_scale`, the width of their bounds, and a schedule, as in RLlib.
    """

    def __init__(
        self,
        distribution: Distribution,
        bounds: tuple[Array, Array],
        *,
        theta: float,
        sigma: float,
        base_scale: float,
        scale: Callable[[int], float],
    ) -> None:
        """Add noise.

        Args:
            distribution: The distribution, which makes actions of the policy's outputs.
            bounds: The lowest and the highest numbers of an action, [d] each, in the space that is learned in.
            theta: The share of the way back to zero that the noise makes in a step.
            sigma: The standard deviation of the number that is added to it in a step.
            base_scale: The constant factor of the noise.
            scale: A further factor, a function of the number of steps that all lanes have made.
        """
        width = bounds[1] - bounds[0]
        stddev = base_scale * np.where(np.isfinite(width), width, 1.0)
        super().__init__(distribution, bounds, stddev=stddev, scale=scale)
        self._theta, self._sigma = np.float32(theta), np.float32(sigma)

    def memory(self) -> Mapping[str, tuple[int, ...]]:
        """Return that it remembers a number for each component."""
        return {DRIFT: (self.noise.width,)}

    def advance(self, memory: Mapping[str, Array], noise: Array, timestep: int) -> Array:
        """Move on by one step, and return where the noise of each lane is now [L, d]."""
        drift = memory[DRIFT]
        drift += self._sigma * noise - self._theta * drift
        return drift


class PerWorkerGaussianNoise(GaussianNoise):
    """Normal noise that is of another size in each runner, so that some explore much and others little."""

    def of_runner(self, index: int, runners: int) -> GaussianNoise:
        """Return the exploration of one runner: the schedule's beside the learner, noise of one size elsewhere.

        Args:
            index: The number of the runner: 0 beside the learner, from 1 elsewhere.
            runners: The number of runners elsewhere.
        """
        return _with_scale_of_runner(self, index, runners)


class PerWorkerOrnsteinUhlenbeckNoise(OrnsteinUhlenbeckNoise):
    """Noise that drifts, and is of another size in each runner, so that some explore much and others little."""

    def of_runner(self, index: int, runners: int) -> GaussianNoise:
        """Return the exploration of one runner: the schedule's beside the learner, noise of one size elsewhere.

        Args:
            index: The number of the runner: 0 beside the learner, from 1 elsewhere.
            runners: The number of runners elsewhere.
        """
        return _with_scale_of_runner(self, index, runners)


def _with_scale_of_runner(exploration: GaussianNoise, index: int, runners: int) -> GaussianNoise:
    """Return the same noise, in the runners elsewhere with a scale like the epsilon of Horgan et al. (2018)."""
    made = copy.copy(exploration)
    if index:
        made._scale = ConstantSchedule(per_worker_epsilon(index, runners)).value
    return made


class RandomActions:
    """Takes any action between the bounds, all alike, for the first steps, and leaves what follows to another.

    A component without a bound is between -1 and 1 in these steps.
    """

    def __init__(self, bounds: tuple[Array, Array], then: Exploration, steps: float) -> None:
        """Explore so for `steps` steps of all lanes, and then by `then`.

        Args:
            bounds: The lowest and the highest numbers of an action, [d] each, in the space that is learned in.
            then: The exploration that follows; one that takes normal noise, or none.
            steps: The number of steps of all lanes.
        """
        low, high = bounds
        bounded = np.isfinite(low) & np.isfinite(high)
        self._low = np.where(bounded, low, np.float32(-1))
        self._width = np.where(bounded, high, np.float32(1)) - self._low
        self._then, self._steps = then, steps
        self._process = then if isinstance(then, NoiseProcess) else None
        self.noise = Noise("normal", max(then.noise.width, len(low)))
        self.keeps = then.keeps

    def of_runner(self, index: int, runners: int) -> RandomActions:
        """Return the exploration of one runner: as random at first, and then what the other one is there.

        Args:
            index: The number of the runner: 0 beside the learner, from 1 elsewhere.
            runners: The number of runners elsewhere.
        """
        made = copy.copy(self)
        if isinstance(self._then, PerRunner):
            made._then = self._then.of_runner(index, runners)
            made._process = made._then if isinstance(made._then, NoiseProcess) else None
        return made

    def memory(self) -> Mapping[str, tuple[int, ...]]:
        """Return what the other exploration remembers."""
        return {} if self._process is None else self._process.memory()

    def advance(self, memory: Mapping[str, Array], noise: Array, timestep: int) -> Array:
        """Let the noise of the other exploration move on, once its time has come."""
        if self._process is None or timestep < self._steps:
            return noise
        return self._process.advance(memory, noise[:, : self._then.noise.width], timestep)

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return an action for each lane [L, d]."""
        if timestep < self._steps:
            actions: Array = self._low + self._width * ndtr(noise[:, : len(self._low)])
            return actions
        return self._then.choose(nn, outputs, noise[:, : self._then.noise.width], timestep)

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return what the other exploration thinks best."""
        return self._then.best(nn, outputs)

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return what the other exploration records."""
        return self._then.recorded(nn, chosen)
