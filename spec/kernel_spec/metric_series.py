"""Series of metrics: a counter, a gauge or a histogram, each for fixed values of its labels.

There are no locks: one thread writes each, and others may read. Where a nanosecond matters, `series.value += 1` is
`series.add()` without the call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any


class CounterSeries:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Count `amount` more."""
        self.value += amount

    def sample(self) -> Any:
        """Return the value of a sample."""
        return self.value

    def reset(self) -> None:
        """Begin anew."""
        self.value = 0.0


class GaugeSeries:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Set the gauge to `value`."""
        self.value = value

    def sample(self) -> Any:
        """Return the value of a sample."""
        return self.value

    def reset(self) -> None:
        """Begin anew."""
        self.value = 0.0


class HistogramSeries:
    """The number of observed values up to each of `bounds`, and the sum of all values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def sample(self) -> Any:
        """Return the value of a sample."""
        return list(self.counts), self.total

    def reset(self) -> None:
        """Begin anew."""
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
