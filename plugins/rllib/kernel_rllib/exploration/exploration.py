"""The contract of an exploration, and the one that most algorithms use: a draw from the policy's distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Distribution, Noise
from kernel_rllib.nn.ops import Ops


class Exploration(Protocol):
    """Chooses actions from the outputs of a module. It draws nothing itself: noise comes with each step of a lane."""

    noise: Noise
    """The noise that a lane needs for one step."""

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return actions [L, ...].

        Args:
            nn: The operations.
            outputs: The outputs of the module's `explore` for the lanes, arrays [L, ...] by name.
            noise: [L, width], of the kind that `noise` names.
            timestep: The number of steps that all lanes of the run have made; schedules go by it.
        """
        ...

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the actions [L, ...] to take where nothing is explored."""
        ...

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return further columns [N, ...] for steps that were made.

        Args:
            nn: The operations.
            chosen: The columns of these steps: actions, and the outputs of the module that `keeps` names.
        """
        ...

    @property
    def keeps(self) -> Sequence[str]:
        """The outputs of the module that become columns."""
        ...


@runtime_checkable
class NoiseProcess(Protocol):
    """An exploration whose noise depends on that of the step before, or on the length of a run.

    The sampler keeps its state of each lane beside the lane's other state: it is in snapshots.
    """

    def memory(self) -> Mapping[str, tuple[int, ...]]:
        """Return what it remembers of a lane, as shapes by names. It begins as zeros, in each episode."""
        ...

    def advance(self, memory: Mapping[str, Array], noise: Array, timestep: int) -> Array:
        """Return the noise [L, width] that `choose` gets in this step, and change the memory for the next one.

        Args:
            memory: The memory of each lane, arrays [L, ...] by name; changed in place.
            noise: The noise that was drawn for this step [L, width].
            timestep: The number of steps that all lanes of the run have made.
        """
        ...


@runtime_checkable
class PerRunner(Protocol):
    """An exploration that is different in each runner."""

    def of_runner(self, index: int, runners: int) -> Exploration:
        """Return the exploration of one runner.

        Args:
            index: The number of the runner: 0 beside the learner, from 1 elsewhere.
            runners: The number of runners elsewhere.
        """
        ...


class StochasticSampling:
    """Draws each action from the policy's distribution, and records its log-probability."""

    def __init__(self, distribution: Distribution, *, records: bool = True) -> None:
        """Draw from this distribution.

        Args:
            distribution: The distribution.
            records: Whether to record log-probabilities, and what the module gave; learning from replay needs neither.
        """
        self._distribution = distribution
        self.noise = distribution.noise
        self.keeps: tuple[str, ...] = (columns.ACTION_DIST_INPUTS,) if records else ()

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return one draw for each lane."""
        actions: Array = self._distribution.sample(nn, outputs[columns.ACTION_DIST_INPUTS], noise)
        return actions

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the mode of the distribution for each lane."""
        actions: Array = self._distribution.mode(nn, outputs[columns.ACTION_DIST_INPUTS])
        return actions

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return `action_logp`: how probable the actions were under the weights that chose them."""
        if not self.keeps:
            return {}
        inputs, actions = chosen[columns.ACTION_DIST_INPUTS], chosen[columns.ACTIONS]
        return {columns.ACTION_LOGP: self._distribution.log_prob(nn, inputs, actions)}


class NoExploration:
    """Takes the actions that another exploration thinks best, and draws nothing."""

    noise = Noise("uniform", 0)

    def __init__(self, exploration: Exploration, *, records: bool = False) -> None:
        """Act as this one does where nothing is explored.

        Args:
            exploration: Knows which actions are best.
            records: Whether to record what it would: learning from these steps may need it.
        """
        self._exploration = exploration
        self.keeps: tuple[str, ...] = tuple(exploration.keeps) if records else ()

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return the best actions."""
        return self._exploration.best(nn, outputs)

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the best actions."""
        return self._exploration.best(nn, outputs)

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return the further columns of the other exploration, if they are to be recorded."""
        return self._exploration.recorded(nn, chosen) if self.keeps else {}
