"""What counts: a counter, a gauge, a histogram, each with its labels bound beforehand.

There are no locks: one thread, that of a data loop, writes each, and others may read. Where a nanosecond matters,
`series.value += 1` is `series.add()` without the call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

LATENCY_MS = (
    0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0,
    500.0, 750.0, 1000.0, 2000.0, 5000.0, 10000.0, 30000.0, 60000.0,
)  # fmt: skip
"""Upper bounds of the buckets of all latencies, in milliseconds."""
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
"""Upper bounds of the buckets of sizes of batches."""


class CounterSeries:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Count `amount` more."""
        self.value += amount


class GaugeSeries:
    """A number that is as it is now."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Let it be `value`."""
        self.value = value


class HistogramSeries:
    """How many values were up to each of `bounds`, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
