"""Rates and percentiles between two moments, from the snapshots of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.metrics import HISTOGRAM, FamilySnapshot, MetricsSnapshot


@dataclass(frozen=True, slots=True)
class Spread:
    """Holds the distribution of values: numbers by bucket, whose upper bounds are `bounds`."""

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)

    def percentile(self, share: float) -> float | None:
        """Return the value below which `share` of the values are, estimated from the buckets; None without values.

        Values above the last bound count as the last bound.
        """
        wanted = share * self.count
        if not wanted:
            return None
        below, lower = 0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if below + count >= wanted:
                return lower + (bound - lower) * (wanted - below) / count
            below, lower = below + count, bound
        return lower


class Numbers:
    """Holds the metrics of all processes at a moment, by name and labels."""

    def __init__(self, snapshots: Iterable[MetricsSnapshot]) -> None:
        self._families: dict[str, list[FamilySnapshot]] = {}
        for snapshot in snapshots:
            for family in snapshot.families:
                self._families.setdefault(family.name, []).append(family)

    def series(self, name: str, **labels: str) -> dict[tuple[str, ...], Any]:
        """Return the series of a name with these labels, by the values of all of their labels."""
        found: dict[tuple[str, ...], Any] = {}
        for family in self._families.get(name, ()):
            if labels.keys() <= set(family.labels):
                places = [(family.labels.index(label), value) for label, value in labels.items()]
                for values, value in family.samples:
                    if all(values[place] == wanted for place, wanted in places):
                        found[values] = value
        return found

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the series of a name with these labels."""
        return float(sum(self.series(name, **labels).values()))

    def values(self, name: str, label: str) -> list[str]:
        """Return the values that a label has in the series of a name."""
        found: dict[str, None] = {}
        for family in self._families.get(name, ()):
            if label in family.labels:
                place = family.labels.index(label)
                found.update(dict.fromkeys(values[place] for values, _ in family.samples))
        return list(found)

    def bounds(self, name: str) -> tuple[float, ...]:
        """Return the bounds of the histograms of a name."""
        families = self._families.get(name) or [FamilySnapshot(name, HISTOGRAM, "", (), (), [])]
        return families[0].bounds


def increase(before: Numbers, now: Numbers, name: str, **labels: str) -> float:
    """Return by how much counters have grown. New series count from 0, series that have gone do not count."""
    old = before.series(name, **labels)
    return float(sum(max(value - old.get(key, 0.0), 0.0) for key, value in now.series(name, **labels).items()))


def spread(before: Numbers, now: Numbers, name: str, **labels: str) -> Spread:
    """Return the distribution of the values that came in between, in all histograms of a name with these labels."""
    bounds = now.bounds(name)
    old = before.series(name, **labels)
    sums = [0] * (len(bounds) + 1)
    for key, (counts, _) in now.series(name, **labels).items():
        earlier: Sequence[int] = old[key][0] if key in old else [0] * len(counts)
        if len(counts) == len(sums):
            sums = [each + max(new - was, 0) for each, new, was in zip(sums, counts, earlier, strict=True)]
    return Spread(bounds, tuple(sums))
