"""Ordering points by several losses at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def nondomination_ranks(losses: NDArray[np.float64], enough: int) -> NDArray[np.int64]:
    """Return the front of each row of losses, shape (n, objectives): 0 for rows that no other row dominates.

    Fronts are told apart until they hold `enough` rows; the remaining rows share the next one. Source: Deb et al.,
    "NSGA-II" (IEEE Transactions on Evolutionary Computation 2002), section III.
    """
    ranks = np.full(len(losses), -1, np.int64)
    remaining = np.arange(len(losses))
    rank = 0
    while len(remaining) and len(losses) - len(remaining) < enough:
        front = _front(losses[remaining])
        ranks[remaining[front]] = rank
        remaining, rank = remaining[~front], rank + 1
    ranks[remaining] = rank
    return ranks


def crowding_distances(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of the neighbours of each row, infinite at the ends (NSGA-II, section III.B)."""
    distances = np.zeros(len(losses))
    for values in losses.T:
        order = np.argsort(values, kind="stable")
        spread = values[order[-1]] - values[order[0]]
        if spread > 0 and np.isfinite(spread):
            distances[order[1:-1]] += (values[order[2:]] - values[order[:-2]]) / spread
        distances[order[[0, -1]]] = np.inf
    return distances


def best_first(losses: NDArray[np.float64], enough: int) -> NDArray[np.int64]:
    """Return the order of rows: by front, then by decreasing crowding distance; exact for the first `enough`."""
    if losses.shape[1] == 1:
        return np.argsort(losses[:, 0], kind="stable")
    ranks = nondomination_ranks(losses, enough)
    distances = np.zeros(len(losses))
    for rank in range(int(ranks.max(initial=0))):
        front = ranks == rank
        distances[front] = crowding_distances(losses[front])
    return np.lexsort((-distances, ranks))


def _front(losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows no other row dominates."""
    order = np.lexsort(losses.T[::-1])
    best = np.empty((0, losses.shape[1]))
    front = np.zeros(len(losses), bool)
    for row in order:
        # A row that dominates another one comes before it in this order.
        if not np.any(np.all(best <= losses[row], 1) & np.any(best < losses[row], 1)):
            best = np.concatenate([best, losses[row : row + 1]])
            front[row] = True
    return front
