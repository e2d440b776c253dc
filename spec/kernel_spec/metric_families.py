"""One metric of a process: a limited number of series, by the values of their labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kernel_spec import metrics
from kernel_spec.errors import MetricError
from kernel_spec.metric_series import CounterSeries, GaugeSeries, HistogramSeries
from kernel_spec.metrics import OTHER, FamilySnapshot

S = TypeVar("S", bound=CounterSeries | GaugeSeries | HistogramSeries)


class MetricFamily(Generic[S]):
    """The series of one metric, by the values of their labels.

    `on_full(name, labels)` is called when a further series is requested and the maximum number of series exists.
    `process_labels` are labels that name the process (see `FamilySnapshot`).
    """

    def __init__(
        self,
        name: str,
        kind: str,
        description: str,
        labels: tuple[str, ...],
        make: Callable[[], S],
        on_full: Callable[[str, tuple[str, ...]], None],
        bounds: tuple[float, ...] = (),
        process_labels: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.description = description
        self.labels = labels
        self.bounds = bounds
        self.process_labels = process_labels
        self._make = make
        self._on_full = on_full
        self._series: dict[tuple[str, ...], S] = {}

    @property
    def shape(self) -> tuple[Any, ...]:
        """The properties in which two definitions of the same name must agree."""
        return self.kind, self.labels, self.bounds

    @property
    def is_full(self) -> bool:
        """Whether new values of labels are counted as `other`."""
        return len(self._series) >= metrics.MOST_SERIES

    def labelled(self, *values: str) -> S:
        """Return the series with these values of the labels. Callers that use it often should keep it."""
        found = self._series.get(values)
        if found is not None:
            return found
        if len(values) != len(self.labels):
            raise MetricError(
                f"{self.name} has the labels {', '.join(self.labels) or 'none'}, not {len(values)} values"
            )
        if self.is_full:
            other = (OTHER,) * len(self.labels)
            if other not in self._series:
                self._on_full(self.name, self.labels)
            values = other
        return self._series.setdefault(values, self._make())

    def keep(self, wanted: Callable[[tuple[str, ...]], bool]) -> None:
        """Drop the series for whose values `wanted` is false."""
        for values in self._series.copy():
            if not wanted(values):
                self._series.pop(values, None)

    def snapshot(self) -> FamilySnapshot:
        """Return the current samples."""
        samples = [(values, series.sample()) for values, series in self._series.copy().items()]
        return FamilySnapshot(
            self.name, self.kind, self.description, self.labels, self.bounds, samples, self.process_labels
        )

    def reset(self) -> None:
        """Set all series to zero."""
        for series in self._series.copy().values():
            series.reset()
