"""The learner: one vector of parameters, and the steps that optimizers make down the gradients of losses.

A loss is a function that says what is to be small; all else is the same for all algorithms and is here. Most algorithms
have one objective. Actor-critics that learn off policy have several, each over parameters of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import CheckpointError, NumericError
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.backend import Backend
from kernel_rllib.nn.clipping import clip_gradient
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.optimizers import Optimizer
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.nn.schedules import Schedule

Metrics: TypeAlias = dict[str, Any]
Loss: TypeAlias = Callable[[Ops, Module, Parameters, Batch], "tuple[Any, Metrics]"]
"""Returns what is to be small, one number, and what is reported of it, for a batch."""


@dataclass
class Objective:
    """Holds a loss, and the settings of the optimizer that minimises it.

    Attributes:
        loss: The function that is minimised.
        learning_rate: The learning rate, by the number of steps of the environments.
        optimizer: The name of the optimizer.
        optimizer_settings: The arguments of the optimizer.
        clip: The bound of the gradient; None for no bound.
        clip_by: The bounded quantity: `"global_norm"`, `"norm"` of each parameter, or each `"value"`.
        trainable: The prefixes of the names of the parameters that it updates; None for all of them.
    """

    loss: Loss
    learning_rate: Schedule
    optimizer: str = "adam"
    optimizer_settings: Mapping[str, Any] = field(default_factory=dict)
    clip: float | None = None
    clip_by: str = "global_norm"
    trainable: tuple[str, ...] | None = None


class Learner:
    """The parameters of one module, and how they are learned."""

    def __init__(
        self, module: Module, backend: Backend, objectives: Mapping[str, Objective], stream: np.random.Generator
    ) -> None:
        """Begin with parameters drawn from `stream`.

        Args:
            module: The module, whose parameters are learned.
            backend: The backend, which differentiates.
            objectives: The objectives, whose losses are minimised, by name.
            stream: The generator of random numbers that the first parameters are drawn from.
        """
        self.module, self.backend = module, backend
        self.vector = backend.vector(module.initial(stream))
        """All parameters, as the backend keeps them."""
        self.version = 0
        """The number of updates of the parameters."""
        self._objectives = {name: _Part(objective, module.table, backend) for name, objective in objectives.items()}

    def update(self, batch: Batch, timestep: int = 0, only: Sequence[str] | None = None) -> Metrics:
        """Make one step for each objective, in order, and return what their losses report.

        Args:
            batch: The batch that the losses are of.
            timestep: The number of steps that the environments have made; schedules go by it.
            only: The names of the objectives to step for; None for all.

        Raises:
            NumericError: If a gradient is not finite. The parameters are those of before the step for that objective.
        """
        metrics: Metrics = {}
        for name in self._objectives if only is None else only:
            reported, gradient = self.gradient(name, batch)
            metrics.update(self.apply(name, gradient, timestep, reported, batch))
        return metrics

    def gradient(self, name: str, batch: Batch) -> tuple[Metrics, Any]:
        """Return what an objective's loss reports for a batch, and its gradient by all parameters [size].

        Nothing is changed. The gradient is the same memory at each call: what is to outlive the next must be copied.

        Args:
            name: The objective.
            batch: The batch that its loss is of.
        """
        objective = self._objectives[name].objective

        def loss(nn: Ops, parameters: Parameters) -> tuple[Any, Metrics]:
            total, metrics = objective.loss(nn, self.module, parameters, batch)
            total, own = self.module.own_loss(nn, parameters, total, batch)
            return total, {**metrics, **own} if own else metrics

        return self.backend.gradient(loss, self.vector, self.module.table, objective.trainable)

    def apply(
        self, name: str, gradient: Any, timestep: int = 0, metrics: Metrics | None = None, batch: Batch | None = None
    ) -> Metrics:
        """Make one step for an objective by a gradient, which is clipped first, in place; return what is reported.

        Args:
            name: The objective.
            gradient: The gradient by all parameters [size], an array of this backend.
            timestep: The number of steps that the environments have made; schedules go by it.
            metrics: The metrics of the loss. They are returned, with the gradient's length and the learning rate.
            batch: The batch that the gradient is of, to be named in errors.

        Raises:
            NumericError: If the gradient is not finite. The parameters are those of before.
        """
        part = self._objectives[name]
        objective, metrics = part.objective, metrics or {}
        norm = clip_gradient(gradient, self.module.table, objective.clip_by, objective.clip)
        if not isfinite(norm):
            raise NumericError(_not_finite(name, self.version, metrics, batch or {}))
        rate = objective.learning_rate.value(timestep)
        part.optimizer.step(self.vector[part.place], gradient[part.place], rate)
        self.version += 1
        return {**metrics, f"{name}_gradient_norm": norm, f"{name}_learning_rate": rate}

    @property
    def weights(self) -> Array:
        """Return all parameters as an array [size]; it may change with the next update."""
        found: Array = self.backend.to_numpy(self.vector)
        return found

    def evaluate(self, function: Callable[[Ops, Parameters], Any], vector: Any = None) -> Any:
        """Return `function(nn, parameters)` without a gradient, with the parameters of now or those of `vector`."""
        return self.backend.evaluate(function, self.vector if vector is None else vector, self.module.table)

    def state(self) -> dict[str, Any]:
        """Return all that learning needs to go on elsewhere, as arrays and numbers."""
        optimizers = {name: part.optimizer.state() for name, part in self._objectives.items()}
        return {
            "weights": self.weights.copy(),
            "table": [[name, list(shape)] for name, shape in self.module.table.shapes().items()],
            "optimizers": optimizers,
            "version": self.version,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned.

        Raises:
            CheckpointError: If it is of a module with other parameters.
        """
        here = [[name, list(shape)] for name, shape in self.module.table.shapes().items()]
        if state["table"] != here:
            raise CheckpointError(_other_table(state["table"], here))
        self.vector[...] = self.backend.vector(state["weights"])
        self.version = int(state["version"])
        for name, part in self._objectives.items():
            part.optimizer.set_state(state["optimizers"][name])


class _Part:
    """An objective, its optimizer, and where in the vector its parameters are."""

    def __init__(self, objective: Objective, table: ParameterTable, backend: Backend) -> None:
        self.objective = objective
        self.place = slice(0, table.size)
        if objective.trainable is not None:
            (self.place,) = table.mask(objective.trainable)
        size = self.place.stop - self.place.start
        self.optimizer: Optimizer = backend.optimizer(objective.optimizer, size, **objective.optimizer_settings)


def _other_table(saved: Any, here: Any) -> str:
    names = {name: shape for name, shape in saved}
    wrong = [f"{name} {names.get(name, 'missing')}, here {shape}" for name, shape in here if names.get(name) != shape]
    wrong += [f"{name} {shape}, not here" for name, shape in saved if name not in dict(map(tuple, here))]
    return (
        f"the saved parameters are of another module: {'; '.join(wrong[:4])}. Build the algorithm with the model, "
        "spaces and settings that it was saved with."
    )


def _not_finite(name: str, version: int, metrics: Mapping[str, Any], batch: Mapping[str, Array]) -> str:
    wrong = [key for key, column in batch.items() if column.dtype.kind == "f" and not np.isfinite(column).all()]
    reports = ", ".join(f"{key}={value}" for key, value in metrics.items())
    found = (
        f"its columns {wrong} hold numbers that are not finite: look at what the environment returned there."
        if wrong
        else "all numbers in it are finite: a smaller learning rate, or a bound on gradients (`grad_clip`), may help."
    )
    return (
        f"the gradient of {name!r} is not finite at step {version} of the learner (the loss reported {reports}). Of "
        f"the batch, {found} The parameters are those of before."
    )
