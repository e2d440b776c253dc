"""Losses of algorithms beside their twins in `reference`: both values, and both gradients by all parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.ops import Ops
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradients

STEP = 2e-4
"""The step of central differences: their errors, and those of rounding, are about 1e-12 then."""

Twin = Callable[..., Any]
"""Returns a loss, or what has it as `total`, given the outputs of the module by name (float64)."""


def in_float64(batch: Batch) -> Batch:
    """Return a batch whose floats have twice as many bits."""
    wide = batch.copy(shallow=True)
    for name, column in batch.items():
        # Columns of sequences have other lengths than the batch says, so they are set without its check.
        dict.__setitem__(wide, name, column.astype(np.float64) if column.dtype.kind == "f" else column)
    return wide


def loss_and_gradient(loss: Loss, module: Module, vector: Array, batch: Batch) -> tuple[Metrics, Array]:
    """Return what a loss reports, and its gradient by the parameters `vector`, in the type of that."""
    backend = NumpyBackend()
    metrics, gradient = backend.gradient(
        lambda nn, parameters: loss(nn, module, parameters, batch), backend.vector(vector), module.table
    )
    return metrics, gradient.copy()


def twin_and_gradient(
    twin: Twin, names: Sequence[str], module: Module, vector: Array, batch: Batch
) -> tuple[float, Array]:
    """Return the value of a twin at the outputs of a module, and its gradient by the module's parameters.

    The gradient by the outputs is of central differences; through the module it goes by the tape, in float64.

    Args:
        twin: The twin, a function of the outputs that `names` has.
        names: The outputs that it is a function of.
        module: The module.
        vector: Its parameters.
        batch: The batch that it takes.
    """
    batch = in_float64(batch)
    backend, vector = NumpyBackend(), np.asarray(vector, np.float64)
    outputs = backend.evaluate(lambda nn, parameters: module.train(nn, parameters, batch), vector, module.table)
    at = {name: np.array(outputs[name], np.float64) for name in names}
    near, far = (numerical_gradients(twin, names, step, **at) for step in (STEP, 2 * STEP))
    by_outputs = {name: (4 * near[name] - far[name]) / 3 for name in names}  # of fourth order

    def along(nn: Ops, parameters: Parameters) -> tuple[Any, Metrics]:
        found = module.train(nn, parameters, batch)
        total = 0.0
        for name in names:
            total = total + nn.sum(found[name] * nn.constant(by_outputs[name]))
        return total, {}

    value = twin(**at)
    _, gradient = backend.gradient(along, vector, module.table)
    total = value if isinstance(value, float) else value.total
    return float(total), gradient
