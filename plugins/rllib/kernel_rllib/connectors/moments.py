"""Means and variances that are counted in many places and put together exactly.

Chan, Golub and LeVeque (Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979): for parts a
and b with counts n, means m and sums of squared deviations S, with d = m_b - m_a,

    n = n_a + n_b,    m = m_a + d n_b / n,    S = S_a + S_b + d^2 n_a n_b / n.

All numbers are float64, and parts are put together in the order in which they are given: the same parts in the same
order give the same bits, whoever counted them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kernel_rllib.arrays import Array


@dataclass(frozen=True)
class Moments:
    """The count, mean and sum of squared deviations of some rows; or of those of several lanes, with an axis for lanes.

    Attributes:
        count: The number of rows: [], or [L].
        mean: Their mean: [...], or [L, ...].
        squares: The sum of the squares of their deviations from it, of the same shape.
    """

    count: Array
    mean: Array
    squares: Array

    def joined(self, other: Moments) -> Moments:
        """Return the moments of the rows of both."""
        total = self.count + other.count
        share = np.divide(other.count, total, out=np.zeros_like(total), where=total > 0)
        apart = other.mean - self.mean
        mean = self.mean + apart * _wide(share, apart)
        squares = self.squares + other.squares + apart * apart * _wide(self.count * share, apart)
        return Moments(total, mean, squares)

    def pooled(self) -> Moments:
        """Return the moments of the rows of all lanes together, of moments with an axis for lanes."""
        total = self.count.sum()
        weights = _wide(self.count, self.mean)
        mean = (weights * self.mean).sum(axis=0) / max(total, 1.0)
        apart = self.mean - mean
        return Moments(total, mean, (self.squares + weights * apart * apart).sum(axis=0))

    def lane(self, position: int) -> Moments:
        """Return the moments of the lane at this position."""
        return Moments(self.count[position], self.mean[position], self.squares[position])

    def deviation(self) -> Array:
        """Return the standard deviation [...] of the rows; 0 where there are fewer than two."""
        found: Array = np.sqrt(self.squares / _wide(np.maximum(self.count - 1, 1), self.squares))
        return found

    def arrays(self) -> dict[str, Array]:
        """Return all of it as arrays, as checkpoints keep them."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> Moments:
        """Return the moments that `arrays` was called of."""
        return cls(*(np.asarray(arrays[name], np.float64) for name in ("count", "mean", "squares")))


def no_rows(shape: tuple[int, ...], lanes: tuple[int, ...] = ()) -> Moments:
    """Return the moments of no row of this shape; of no row of each lane, for `lanes=(L,)`."""
    return Moments(np.zeros(lanes), np.zeros((*lanes, *shape)), np.zeros((*lanes, *shape)))


def moments_of(rows: Array, kept: Array | None = None) -> Moments:
    """Return the moments of the rows of each lane.

    Args:
        rows: [K, L, ...], K rows of L lanes.
        kept: The number of rows of each lane that count, the first ones [L], from 1 on; None for all.

    Returns:
        Moments with an axis for lanes. Those of a lane don't depend on what other lanes there are: sums are running
        ones, which numpy adds up one after another whatever the shape is.
    """
    numbers = rows.astype(np.float64)
    count, lanes = numbers.shape[:2]
    kept = np.full(lanes, count) if kept is None else kept
    last = (kept - 1, np.arange(lanes))
    size = kept.astype(np.float64)
    mean = np.cumsum(numbers, axis=0)[last]
    mean /= _wide(size, mean)
    numbers -= mean
    numbers *= numbers
    return Moments(size, mean, np.cumsum(numbers, axis=0)[last])


Statistics: TypeAlias = dict[str, Moments]
"""The statistics that connectors have of the rows of all lanes, by the names of connectors."""


def with_learned(statistics: Statistics, learned: Iterable[Mapping[str, Moments]]) -> Statistics:
    """Return statistics with what was learned since: lane after lane, in the order of those who learned.

    Args:
        statistics: The statistics of before.
        learned: The moments of lanes by the names of connectors, of one group of lanes after another.
    """
    found = dict(statistics)
    lanes_of: dict[str, list[Moments]] = {}
    for part in learned:
        for name, lanes in part.items():
            lanes_of.setdefault(name, []).append(lanes)
    for name, parts in lanes_of.items():
        # All lanes in one array: its sums don't know who counted them.
        together = Moments(*(np.concatenate(column) for column in zip(*map(_columns, parts), strict=True)))
        whole = together.pooled()
        found[name] = found[name].joined(whole) if name in found else whole
    return found


def _columns(moments: Moments) -> tuple[Array, Array, Array]:
    return moments.count, moments.mean, moments.squares


def _wide(numbers: Array, like: Array) -> Array:
    """Return numbers [], or [L], in a shape that goes with an array of [...], or [L, ...]."""
    return np.reshape(numbers, (*np.shape(numbers), *(1,) * (like.ndim - np.ndim(numbers))))
