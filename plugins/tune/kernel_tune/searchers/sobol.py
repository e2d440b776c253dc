"""Sobol sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_tune.search_space.flat import FlatSpace, Point
from kernel_tune.searchers.space_searcher import SpaceSearcher

BATCH = 64


class SobolSearch(SpaceSearcher):
    """Spreads configurations evenly over the space: random search without its gaps and clusters.

    The points are a scrambled Sobol sequence (Owen, "Scrambled net variance for integrals of smooth functions", Annals
    of Statistics 1997), one after another; another seed scrambles it differently. In a conditional space each point
    uses the active coordinates. `skip` leaves out the first points, to continue an earlier experiment with the same
    seed. Other arguments are those of `SpaceSearcher`.
    """

    def __init__(self, space: dict[str, Any] | None = None, metric: str | None = None, mode: str | None = None,
                 skip: int = 0, **options: Any) -> None:  # fmt: skip
        super().__init__(space, metric, mode, **options)
        self._scrambling = int(self._generator.integers(2**31))
        self._next = skip
        self._batch: NDArray[np.float64] | None = None
        self._batch_begins = 0

    def _propose(self, trial_id: str) -> Point:
        flat = self._begun()
        offset = self._next - self._batch_begins
        if self._batch is None or not 0 <= offset < len(self._batch):
            self._batch_begins, offset = self._next - self._next % BATCH, self._next % BATCH
            self._batch = self._points(flat, self._batch_begins)
        self._next += 1
        return flat.settled(self._batch[offset : offset + 1])[0]

    def _points(self, flat: FlatSpace, first: int) -> NDArray[np.float64]:
        if not len(flat):
            return np.empty((BATCH, 0))
        from scipy.stats import qmc  # here: its import takes most of a second

        sequence = qmc.Sobol(len(flat), scramble=True, seed=self._scrambling)
        if first:
            sequence.fast_forward(first)
        points: NDArray[np.float64] = sequence.random(BATCH)
        return points
