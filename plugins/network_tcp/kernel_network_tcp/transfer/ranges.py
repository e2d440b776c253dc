"""Record which ranges of an object's bytes are present."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator


class Ranges:
    """Holds a set of byte positions as disjoint ranges that do not touch, in order."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self.total = 0
        """The number of bytes in all ranges."""

    def add(self, start: int, end: int) -> None:
        """Add the bytes from `start` up to `end`, those that are there already included."""
        if start >= end:
            return
        ranges = self._ranges
        first = bisect_right(ranges, (start,))
        if first and ranges[first - 1][1] >= start:
            first -= 1
        last = first
        while last < len(ranges) and ranges[last][0] <= end:
            start, end = min(start, ranges[last][0]), max(end, ranges[last][1])
            self.total -= ranges[last][1] - ranges[last][0]
            last += 1
        ranges[first:last] = [(start, end)]
        self.total += end - start

    def remove_first(self, most: int) -> tuple[int, int]:
        """Take up to `most` bytes from the front; return where they start and end. The set must not be empty."""
        start, end = self._ranges.pop(0)
        if end - start > most:
            insort(self._ranges, (start + most, end))
            end = start + most
        self.total -= end - start
        return start, end

    def cover(self, start: int, end: int) -> bool:
        """Return whether all bytes from `start` up to `end` (exclusive) are there."""
        index = bisect_right(self._ranges, (start, float("inf"))) - 1
        return start >= end or (index >= 0 and self._ranges[index][1] >= end)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def __repr__(self) -> str:
        return " ".join(f"{start}-{end}" for start, end in self._ranges) or "none"

    def validate(self) -> None:
        """Raise AssertionError when ranges are empty, touch, are out of order, or are counted wrong."""
        previous = -1
        for start, end in self._ranges:
            assert previous < start < end, f"ranges touch or are out of order: {self._ranges}"
            previous = end
        assert self.total == sum(end - start for start, end in self._ranges), f"{self.total} is not the sum of {self}"
