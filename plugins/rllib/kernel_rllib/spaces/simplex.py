"""A space of shares: numbers of at least 0 that add up to one, such as the weights of a portfolio."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box

Array = np.ndarray[Any, Any]
_TOLERANCE = 1e-3
"""The most by which a sum of shares may differ from 1, in float32."""


class Simplex(Box):
    """Arrays of a shape whose last axis adds up to 1.

    shape: of one value. concentration: of the Dirichlet distribution that `sample` draws from; ones where not given.
    """

    def __init__(
        self, shape: tuple[int, ...], concentration: Array | None = None, dtype: type[np.floating[Any]] = np.float32
    ) -> None:
        super().__init__(0.0, 1.0, shape, dtype)
        self.concentration = np.ones(shape[-1]) if concentration is None else np.asarray(concentration, float)

    def sample(self, mask: Any = None, probability: Any = None) -> Array:
        """Return random shares."""
        return self.np_random.dirichlet(self.concentration, size=self.shape[:-1]).astype(self.dtype)

    def contains(self, x: Any) -> bool:
        """Return whether `x` has the shape, is at least 0 and adds up to 1 along the last axis."""
        return bool(super().contains(x) and np.all(np.abs(np.sum(x, axis=-1) - 1) < _TOLERANCE))

    def __repr__(self) -> str:
        return f"Simplex({self.shape}, {self.dtype})"

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, Simplex)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and bool(np.array_equal(self.concentration, other.concentration))
        )
