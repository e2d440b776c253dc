"""All that a process counts: families of series by name, and a picture of them that can travel."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

from kernel_serve.errors import MetricError
from kernel_serve.metrics.series import CounterSeries, GaugeSeries, HistogramSeries

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

MOST_SERIES = 2000
"""A family has no more: label values from a client or a user must not fill the memory of all who look at them."""
OTHER = "other"
"""The value of all labels of what came after that."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")

S = TypeVar("S", bound=CounterSeries | GaugeSeries | HistogramSeries)


class FamilyPicture(NamedTuple):
    """A family at a moment. A sample is (values of the labels, value); that of a histogram (counts, sum)."""

    name: str
    kind: str
    description: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    samples: list[tuple[tuple[str, ...], Any]]


class Picture(NamedTuple):
    """All families of a process at a moment; `origin` tells processes apart."""

    origin: str
    families: list[FamilyPicture]


class Family(Generic[S]):
    """The series of one name, by the values of their labels."""

    def __init__(
        self,
        name: str,
        kind: str,
        description: str,
        labels: tuple[str, ...],
        make: Callable[[], S],
        bounds: tuple[float, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.description = description
        self.labels = labels
        self.bounds = bounds
        self._make = make
        self._series: dict[tuple[str, ...], S] = {}

    @property
    def shape(self) -> tuple[Any, ...]:
        """What two uses of one name must agree on."""
        return self.kind, self.labels, self.bounds

    def labelled(self, *values: str) -> S:
        """Return the series with these values of the labels. To be kept where it is used often."""
        found = self._series.get(values)
        if found is not None:
            return found
        if len(values) != len(self.labels):
            raise MetricError(
                f"{self.name} has the labels {', '.join(self.labels) or 'none'}, not {len(values)} values"
            )
        if len(self._series) >= MOST_SERIES:
            values = (OTHER,) * len(self.labels)
        return self._series.setdefault(values, self._make())

    def keep(self, wanted: Callable[[tuple[str, ...]], bool]) -> None:
        """Forget the series for whose values `wanted` is false."""
        for values in self._series.copy():
            if not wanted(values):
                self._series.pop(values, None)

    def picture(self) -> FamilyPicture:
        """Return how it is now."""
        samples: list[tuple[tuple[str, ...], Any]] = []
        for values, series in self._series.copy().items():
            if isinstance(series, HistogramSeries):
                samples.append((values, (list(series.counts), series.total)))
            else:
                samples.append((values, series.value))
        return FamilyPicture(self.name, self.kind, self.description, self.labels, self.bounds, samples)


class MetricRegistry:
    """The families of one process. Those of one name are one; pictures may be taken from any thread."""

    def __init__(self) -> None:
        self.origin = secrets.token_hex(8)
        self.is_asked = False
        """Whether this process is one that is asked for its picture: a part of Serve."""
        self._families: dict[str, Family[Any]] = {}
        self._collectors: list[Callable[[], None]] = []

    def counter(self, name: str, description: str, labels: Sequence[str] = ()) -> Family[CounterSeries]:
        """Return the family of counters of that name. Raises MetricError when it is another kind of thing already."""
        return self._family(Family(name, COUNTER, description, tuple(labels), CounterSeries))

    def gauge(self, name: str, description: str, labels: Sequence[str] = ()) -> Family[GaugeSeries]:
        """Return the family of gauges of that name. Raises MetricError as `counter` does."""
        return self._family(Family(name, GAUGE, description, tuple(labels), GaugeSeries))

    def histogram(
        self, name: str, description: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> Family[HistogramSeries]:
        """Return the family of histograms of that name. Raises MetricError, too, for `bounds` that do not rise."""
        bounds = tuple(float(bound) for bound in bounds)
        if not bounds or any(later <= earlier for earlier, later in pairwise(bounds)):
            raise MetricError(f"the boundaries of {name} are numbers that rise, not {list(bounds)}")
        if "le" in labels:
            raise MetricError(f"histogram {name} can't have a label le: its buckets have that")
        return self._family(
            Family(name, HISTOGRAM, description, tuple(labels), lambda: HistogramSeries(bounds), bounds)
        )

    def _family(self, wanted: Family[S]) -> Family[S]:
        if not _NAME.fullmatch(wanted.name):
            raise MetricError(f"a metric's name has letters, digits and underscores, and is not {wanted.name!r}")
        for label in wanted.labels:
            if not _LABEL.fullmatch(label):
                raise MetricError(f"metric {wanted.name} has a tag {label!r}: it has letters, digits and underscores")
        found = self._families.setdefault(wanted.name, wanted)
        if found.shape != wanted.shape:
            raise MetricError(
                f"there is a {found.kind} {found.name!r} already, with tags {found.labels} and boundaries "
                f"{found.bounds}; it can't be a {wanted.kind} with {wanted.labels} and {wanted.bounds}, too: "
                "give one of them another name"
            )
        return found

    def collect_by(self, collector: Callable[[], None]) -> None:
        """Have `collector` called before each picture: it sets what is not counted as it happens."""
        self._collectors.append(collector)

    def picture(self) -> Picture:
        """Return how all of it is now."""
        for collector in list(self._collectors):
            collector()
        return Picture(self.origin, [family.picture() for family in self._families.copy().values()])


REGISTRY = MetricRegistry()
"""That of this process."""
