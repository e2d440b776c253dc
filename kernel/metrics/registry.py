"""The metrics of a process by name, and a picklable snapshot of them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from kernel_spec.errors import MetricError
from kernel_spec.metric_families import MetricFamily, S
from kernel_spec.metric_series import CounterSeries, GaugeSeries, HistogramSeries
from kernel_spec.metrics import COUNTER, GAUGE, HISTOGRAM, MOST_SERIES, OTHER, FamilySnapshot, MetricsSnapshot

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class MetricRegistry:
    """The metrics of one process; equal names mean the same metric. Snapshots may be taken from any thread.

    `process_labels` are the labels of a metric that name this process, or a part of it: see `FamilySnapshot`.
    """

    def __init__(self) -> None:
        self.origin = secrets.token_hex(8)
        self._families: dict[str, MetricFamily[Any]] = {}
        self._collectors: list[Callable[[], None]] = []
        self._included: list[Callable[[], Iterable[FamilySnapshot]]] = []

    def counter(
        self, name: str, description: str, labels: Sequence[str] = (), process_labels: Sequence[str] = ()
    ) -> MetricFamily[CounterSeries]:
        """Return the counters of that name. Raises MetricError when the name belongs to a different metric."""
        named = tuple(process_labels)
        return self._family(
            MetricFamily(name, COUNTER, description, tuple(labels), CounterSeries, _warn, process_labels=named)
        )

    def gauge(self, name: str, description: str, labels: Sequence[str] = ()) -> MetricFamily[GaugeSeries]:
        """Return the gauges of that name. Raises MetricError as `counter` does."""
        return self._family(MetricFamily(name, GAUGE, description, tuple(labels), GaugeSeries, _warn))

    def histogram(
        self,
        name: str,
        description: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        process_labels: Sequence[str] = (),
    ) -> MetricFamily[HistogramSeries]:
        """Return the histograms of that name. Raises MetricError also for `bounds` that do not rise."""
        bounds = tuple(float(bound) for bound in bounds)
        if not bounds or any(later <= earlier for earlier, later in pairwise(bounds)):
            raise MetricError(f"the boundaries of {name} are numbers that rise, not {list(bounds)}")
        if "le" in labels:
            raise MetricError(f"histogram {name} can't have a label le: its buckets have that")
        return self._family(
            MetricFamily(
                name, HISTOGRAM, description, tuple(labels), lambda: HistogramSeries(bounds), _warn, bounds,
                tuple(process_labels),
            )
        )  # fmt: skip

    def _family(self, wanted: MetricFamily[S]) -> MetricFamily[S]:
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
        """Call `collector` before each snapshot, to set metrics that are not counted when events happen."""
        self._collectors.append(collector)

    def include(self, families: Callable[[], Iterable[FamilySnapshot]]) -> None:
        """Include the result of `families` in snapshots: the metrics of a library with a registry of its own.

        It is called for each snapshot, in any thread.
        """
        self._included.append(families)

    def families(self) -> list[FamilySnapshot]:
        """Return the current samples of each metric, the included ones last."""
        for collector in list(self._collectors):
            collector()
        own = [family.snapshot() for family in self._families.copy().values()]
        return [*own, *(family for included in list(self._included) for family in included())]

    def snapshot(self) -> MetricsSnapshot:
        """Return the current samples of all metrics."""
        return MetricsSnapshot(self.origin, self.families())

    def begin_anew(self) -> None:
        """Set all metrics to zero in a forked child, which must not report its parent's counts again."""
        self.origin = secrets.token_hex(8)
        for family in self._families.copy().values():
            family.reset()


def _warn(name: str, labels: tuple[str, ...]) -> None:
    from kernel.logs import Logger

    Logger("kernel.metrics").warning(
        f"the metric {name!r} has {MOST_SERIES} series, and gets no more: further values of its tags "
        f"({', '.join(labels)}) are counted together as {OTHER!r}; give it tags that have few values"
    )


REGISTRY = MetricRegistry()
"""The registry of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=REGISTRY.begin_anew)
