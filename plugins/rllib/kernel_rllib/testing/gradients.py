"""Gradients by finite differences: slow, and right for every loss that has one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.nn.backend import Backend, Loss
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.parameters import ParameterTable


def finite_differences(
    loss: Loss,
    vector: NDArray[np.float64],
    table: ParameterTable,
    step: float = 1e-5,
    evaluator: Backend | None = None,
) -> NDArray[np.float64]:
    """Return the gradient of `loss` by each number of `vector`: two steps away on both sides, of fourth order.

    Where the loss has a kink nearer than that, the result is between the slopes on both sides. `evaluator` computes the
    loss, in numpy where none is given.
    """
    backend = evaluator or NumpyBackend()

    def at(k: int, distance: float) -> float:
        moved = np.array(vector, np.float64)
        moved[k] += distance
        return float(backend.evaluate(lambda nn, params: loss(nn, params)[0], moved, table))

    slopes = [
        (8 * (at(k, step) - at(k, -step)) - (at(k, 2 * step) - at(k, -2 * step))) / (12 * step)
        for k in range(table.size)
    ]
    return np.array(slopes)


def check_gradient(
    loss: Loss,
    values: dict[str, Any],
    backend: Backend | None = None,
    tolerance: float = 1e-6,
    evaluator: Backend | None = None,
) -> None:
    """Compare the gradient of `loss` by the parameters `values` with finite differences, in float64.

    Raises AssertionError, which names the parameter, where they are apart by more than `tolerance` times the greatest
    slope.
    """
    backend = NumpyBackend() if backend is None else backend
    table = ParameterTable({name: np.shape(value) for name, value in values.items()})
    vector = table.vector(values, np.float64)
    expected = finite_differences(loss, vector, table, evaluator=evaluator)
    _, gradient = backend.gradient(loss, backend.vector(vector), table)
    found = np.array(backend.to_numpy(gradient))
    scale = max(1e-3, float(np.abs(expected).max(initial=0)))
    for name, entry in table.items():
        apart = np.abs(found[entry.place] - expected[entry.place])
        if not (apart <= tolerance * scale).all():
            raise AssertionError(
                f"the gradient by {name!r} is {found[entry.place].reshape(entry.shape)}, and finite differences give "
                f"{expected[entry.place].reshape(entry.shape)}"
            )
