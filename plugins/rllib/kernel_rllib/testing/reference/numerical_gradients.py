"""Numerical gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def numerical_gradient(
    function: Callable[[NDArray[np.float64]], float], point: ArrayLike, step: float = 1e-6
) -> NDArray[np.float64]:
    """Return the gradient of a function at a point, an array of any shape, by central differences.

    Its error is about step^2 where the third derivative is about 1, and 1e-16 / step from rounding.
    """
    here = np.array(point, np.float64)
    gradient = np.zeros_like(here)
    for index in np.ndindex(here.shape):
        middle = here[index]
        here[index] = middle + step
        above = function(here)
        here[index] = middle - step
        below = function(here)
        here[index] = middle
        gradient[index] = (above - below) / (2 * step)
    return gradient


def numerical_gradients(
    loss: Callable[..., Any], names: Sequence[str], step: float = 1e-6, **arguments: Any
) -> dict[str, NDArray[np.float64]]:
    """Return the gradient of a loss of this package by each of the named arguments.

    Args:
        loss: a function that returns a number, or something whose `total` is one.
        names: which arguments to differentiate by, all of them arrays of floats.
        step: of the central differences.
        arguments: all arguments of the loss.
    """

    def along(name: str) -> Callable[[NDArray[np.float64]], float]:
        def total(value: NDArray[np.float64]) -> float:
            result = loss(**{**arguments, name: value})
            return float(getattr(result, "total", result))

        return total

    return {name: numerical_gradient(along(name), arguments[name], step) for name in names}
