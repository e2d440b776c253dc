"""Access the parameters of a policy: the learner's, or a runner's copy of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kernel_rllib.arrays import Array
from kernel_rllib.learners.learner import Learner
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.runners.sampler import Sampler


class HeldParameters(Protocol):
    """The parameters of one module, wherever they are."""

    @property
    def module(self) -> Module:
        """The module that they are of."""
        ...

    @property
    def vector(self) -> Array:
        """All parameters, as one vector [size], which the next update may change."""
        ...

    def evaluate(self, function: Callable[[Ops, Parameters], Any]) -> Any:
        """Return `function(nn, parameters)` without a gradient, with numpy arrays for whatever it computes with."""
        ...

    def replace(self, vector: Array) -> None:
        """Act and learn with these from now on, [size]; they are copied."""
        ...


class LearnerParameters:
    """The parameters of a learner."""

    def __init__(self, learner: Learner, changed: Callable[[], None] = lambda: None) -> None:
        """Take the learner's; `changed` is called after they were replaced."""
        self._learner, self._changed = learner, changed

    @property
    def module(self) -> Module:
        """The learner's module."""
        return self._learner.module

    @property
    def vector(self) -> Array:
        """All parameters, as one vector [size]."""
        return self._learner.weights

    def evaluate(self, function: Callable[[Ops, Parameters], Any]) -> Any:
        """Return `function(nn, parameters)` by the learner's backend."""
        return self._learner.evaluate(function)

    def replace(self, vector: Array) -> None:
        """Let the learner go on from these."""
        self._learner.vector[...] = self._learner.backend.vector(vector)
        self._learner.version += 1
        self._changed()


class RunnerParameters:
    """The parameters that a runner acts with."""

    def __init__(self, sampler: Sampler) -> None:
        """Take those of this sampler."""
        self._sampler = sampler

    @property
    def module(self) -> Module:
        """The module that acts."""
        return self._sampler.module

    @property
    def vector(self) -> Array:
        """All parameters, as one vector [size]."""
        return self._sampler.weights

    def evaluate(self, function: Callable[[Ops, Parameters], Any]) -> Any:
        """Return `function(nn, parameters)` in numpy."""
        return self._sampler.evaluate(function)

    def replace(self, vector: Array) -> None:
        """Let the runner act with these, until the learner's come again."""
        self._sampler.set_weights(vector, self._sampler.weights_version)


def as_dict(held: HeldParameters) -> dict[str, Array]:
    """Return copies of all parameters, by their names."""
    return {name: view.copy() for name, view in held.module.table.views(held.vector).items()}


def replace_by_dict(held: HeldParameters, weights: Mapping[str, Any]) -> None:
    """Replace all parameters by what a dict has under their names.

    Raises:
        ModuleError: If parameters are missing, unknown or misshapen.
    """
    held.replace(held.module.table.vector(weights))
