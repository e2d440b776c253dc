"""The results of a searcher: points and their losses, in the order in which they became known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class History:
    """Holds a growing list of points and losses. Smaller losses are better; that of a failed trial is infinite."""

    def __init__(self, parameters: int, objectives: int = 1) -> None:
        self._points = np.empty((16, parameters))
        self._losses = np.empty((16, objectives))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, point: Array, losses: Array) -> None:
        """Add a point, shape (parameters,), and its losses, shape (objectives,)."""
        if self._count == len(self._points):
            self._points = np.concatenate([self._points, np.empty_like(self._points)])
            self._losses = np.concatenate([self._losses, np.empty_like(self._losses)])
        self._points[self._count], self._losses[self._count] = point, losses
        self._count += 1

    @property
    def points(self) -> Array:
        """All points, shape (n, parameters)."""
        return self._points[: self._count]

    @property
    def losses(self) -> Array:
        """All losses, shape (n, objectives)."""
        return self._losses[: self._count]
