"""Explorations of discrete actions by their values: epsilon-greedy, and draws by how good actions look.

Actions whose value is -inf may not be taken: none of these explorations chooses one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.errors import ConfigError
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.schedules import ConstantSchedule, Schedule, schedule


class EpsilonGreedy:
    """Takes the best action, and now and then any one: with probability epsilon(t) (Watkins, 1989)."""

    noise = Noise("uniform", 2)
    keeps: tuple[str, ...] = ()

    def __init__(self, epsilon: Schedule | float) -> None:
        """Explore with this probability, or its schedule over how many steps all lanes have made."""
        self._epsilon = schedule(epsilon, "epsilon")

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return the index of an action for each lane [L]."""
        values = outputs[columns.Q_VALUES]
        best: Array = values.argmax(axis=1)
        explored = noise[:, 0] < self._epsilon.value(timestep)
        if not explored.any():
            return best
        return np.where(explored, any_allowed(noise[:, 1], values), best)

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the index of the action with the greatest value for each lane [L]."""
        found: Array = outputs[columns.Q_VALUES].argmax(axis=1)
        return found

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}

    def info(self, timestep: int) -> dict[str, float]:
        """Return how probable random actions are after so many steps."""
        return {"cur_epsilon": float(self._epsilon.value(timestep))}


class SoftQ:
    """Draws actions in proportion to e to the power of their values over a temperature (soft Q-learning)."""

    noise = Noise("uniform", 1)
    keeps: tuple[str, ...] = ()

    def __init__(self, temperature: float = 1.0) -> None:
        """Draw at this temperature: near 0 for the best action alone, large for any.

        Raises:
            ConfigError: If it is not above 0.
        """
        if temperature <= 0:
            raise ConfigError(f"the temperature of SoftQ is {temperature}, but must be above 0: near 0 is greedy")
        self._temperature = temperature

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return the index of an action for each lane [L]."""
        values = outputs[columns.Q_VALUES] / self._temperature
        shares = np.exp(values - values.max(axis=1, keepdims=True)).cumsum(axis=1)
        passed = (shares <= noise * shares[:, -1:]).sum(axis=1)
        chosen: Array = np.minimum(passed, values.shape[1] - 1)
        return chosen

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the index of the action with the greatest value for each lane [L]."""
        found: Array = outputs[columns.Q_VALUES].argmax(axis=1)
        return found

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns."""
        return {}


class PerWorkerEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy with a probability of its own for each runner, so that some explore much and others little."""

    def of_runner(self, index: int, runners: int) -> EpsilonGreedy:
        """Return the exploration of one runner: the schedule's beside the learner, a constant one elsewhere.

        Args:
            index: The number of the runner: 0 beside the learner, from 1 elsewhere.
            runners: The number of runners elsewhere.
        """
        return EpsilonGreedy(ConstantSchedule(per_worker_epsilon(index, runners)) if index else self._epsilon)


class Random:
    """Takes any action, all alike, for the first steps, and leaves what follows to another exploration."""

    def __init__(self, actions: int, then: Any, steps: int) -> None:
        """Explore so for `steps` steps of all lanes, and then by `then`.

        Args:
            actions: The number of actions.
            then: The exploration that follows; one that takes uniform noise.
            steps: The number of steps of all lanes.
        """
        self._actions, self._then, self._steps = actions, then, steps
        self.noise = Noise("uniform", max(then.noise.width, 1))
        self.keeps = then.keeps

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return the index of an action for each lane [L]."""
        if timestep < self._steps:
            values = outputs.get(columns.Q_VALUES)
            return index_of(noise[:, 0], self._actions) if values is None else any_allowed(noise[:, 0], values)
        chosen: Array = self._then.choose(nn, outputs, noise[:, : self._then.noise.width], timestep)
        return chosen

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return what the other exploration thinks best."""
        found: Array = self._then.best(nn, outputs)
        return found

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return what the other exploration records."""
        found: dict[str, Array] = self._then.recorded(nn, chosen)
        return found


def per_worker_epsilon(index: int, runners: int, base: float = 0.4, exponent: float = 7.0) -> float:
    """Return the epsilon of a runner: base ** (1 + i / (N - 1) * exponent) (Horgan et al., 2018, section 4.1).

    Args:
        index: The number of the runner, from 1.
        runners: The number of runners.
        base: The greatest one.
        exponent: The exponent that sets how far they are apart.
    """
    return float(base ** (1 + (index - 1) / max(runners - 1, 1) * exponent))


def index_of(uniforms: Array, count: int) -> Array:
    """Return whole numbers from 0 to `count` - 1, all alike, of uniform ones [L]."""
    return np.minimum((uniforms * count).astype(np.int64), count - 1)


def any_allowed(uniforms: Array, values: Array) -> Array:
    """Return the index of any action [L] whose value [L, A] is not -inf, all alike, of uniform numbers [L]."""
    allowed = values > -np.inf
    if allowed.all():
        return index_of(uniforms, values.shape[1])
    counts = allowed.sum(axis=1)
    place = np.minimum((uniforms * counts).astype(np.int64), counts - 1)  # among those that are allowed
    found: Array = (allowed.cumsum(axis=1) > place[:, None]).argmax(axis=1)
    return found
