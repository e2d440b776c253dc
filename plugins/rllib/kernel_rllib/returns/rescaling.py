"""Values that are kept small by an invertible function, in place of clipped rewards (Pohlen et al., 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rescaled(values: ArrayLike, epsilon: float) -> NDArray[Any]:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x: equation 1 of R2D2 (Kapturowski et al., 2019).

    Args:
        values: Any numbers.
        epsilon: The least slope of h; above 0.
    """
    x = np.asarray(values)
    found: NDArray[Any] = np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + x.dtype.type(epsilon) * x
    return found


def unscaled(values: ArrayLike, epsilon: float) -> NDArray[Any]:
    """Return the numbers of which `rescaled` makes these: its inverse (proposition A.2 of Pohlen et al.).

    It is computed in float64: the formula takes the difference of numbers that are nearly the same.
    """
    given = np.asarray(values)
    x = given.astype(np.float64)
    root = np.sqrt(1 + 4 * epsilon * (np.abs(x) + 1 + epsilon))
    found: NDArray[Any] = np.sign(x) * (np.square((root - 1) / (2 * epsilon)) - 1)
    return found.astype(given.dtype)
