"""Losses and networks in numpy: their values, and their gradients by the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.errors import ModuleError
from kernel_rllib.nn.backend import Loss, Params, forget_oldest, no_dependence, not_a_number, trained
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.numpy_tape import TapeOps
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.optimizers import Optimizer, optimizer
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.nn.tensor import ParameterTensor, Tape, Tensor, run_backward

Vector = NDArray[Any]


class NumpyBackend:
    """Computes in numpy; `Backend` says what each method does."""

    name = "numpy"

    def __init__(self) -> None:
        self._plans: dict[tuple[ParameterTable, tuple[str, ...] | None], _Plan] = {}
        self._viewed: tuple[Vector, ParameterTable, Ops, Params] | None = None
        """The vector and the table that were evaluated last, and what that takes: actions are asked for one by one."""

    def vector(self, values: Any) -> Vector:
        """Return a copy of `values` as a vector."""
        values = np.asarray(values)
        vector: Vector = values.astype(values.dtype if values.dtype == np.float64 else np.float32)
        return vector

    def to_numpy(self, vector: Any) -> Any:
        """Return `vector`."""
        return vector

    def evaluate(self, function: Callable[[Ops, Params], Any], vector: Vector, table: ParameterTable) -> Any:
        """Return `function(nn, params)`."""
        viewed = self._viewed
        if viewed is None or viewed[0] is not vector or viewed[1] is not table:
            viewed = self._viewed = vector, table, NumpyOps(vector.dtype), table.views(vector)
        with np.errstate(all="ignore"):
            return function(viewed[2], viewed[3])

    def gradient(
        self, loss: Loss, vector: Vector, table: ParameterTable, trainable: Sequence[str] | None = None
    ) -> tuple[dict[str, Any], Vector]:
        """Return the metrics of a loss, and its gradient."""
        key = (table, None if trainable is None else tuple(trainable))
        plan = self._plans.get(key)
        if plan is None or plan.vector is not vector:
            forget_oldest(self._plans)
            plan = self._plans[key] = _Plan(vector, table, key[1])
        return plan.run(loss)

    def optimizer(self, name: str, size: int, **settings: Any) -> Optimizer:
        """Return an optimizer of numpy vectors."""
        return optimizer(name, size, **settings)


class _Plan:
    """Holds what gradients of one vector by the same parameters share: the tape, its memory, and the result."""

    def __init__(self, vector: Vector, table: ParameterTable, trainable: tuple[str, ...] | None) -> None:
        self.vector = vector
        self._tape = Tape(vector.dtype)
        self._nn = TapeOps(self._tape)
        self._gradient = np.zeros(table.size, vector.dtype)
        views, slots = table.views(vector), table.views(self._gradient)
        self._parameters = {
            name: ParameterTensor(views[name], self._tape, slots[name]) for name in trained(table, trainable)
        }
        self._params = {**views, **self._parameters}
        self._running = False

    def run(self, loss: Loss) -> tuple[dict[str, Any], Vector]:
        """Return the metrics and the gradient of `loss`."""
        if self._running:
            raise ModuleError(
                "a loss asked for another gradient by the same parameters: there are first derivatives only, and one "
                "gradient at a time"
            )
        self._running = True
        try:
            for parameter in self._parameters.values():
                parameter.gradient = None
            with np.errstate(all="ignore"):
                value, metrics = loss(self._nn, self._params)
                if not isinstance(value, Tensor):
                    raise no_dependence(self._parameters)
                if value.shape != ():
                    raise not_a_number(value.shape)
                settled = {name: _settled(metric) for name, metric in metrics.items()}
                del metrics  # the tensors in it must not keep memory from being used again
                run_backward(self._tape, value, self._tape.dtype.type(1))
            for parameter in self._parameters.values():
                if parameter.gradient is None:
                    parameter.slot.fill(0)
            self._tape.memory.end_round()
            return settled, self._gradient
        finally:
            self._tape.clear()
            self._nn.branches.clear()
            self._running = False


def _settled(metric: Any) -> Any:
    """Return a metric as a float, or as the array that it is."""
    value = metric.value if isinstance(metric, Tensor) else metric
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    return value
