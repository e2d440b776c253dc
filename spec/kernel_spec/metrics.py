"""The metrics contract: the metrics of processes as plain values, and sinks that export them.

A metric is a counter, a gauge or a histogram with a name. It has one series per combination of the values of its
labels, and at most `MOST_SERIES` of them. Each process counts for itself and sends nothing on its own. On request the
head takes a snapshot of every process, and adds up the values of each series. Counters and histograms include processes
that have ended; their gauges are dropped.

A sink is handed all snapshots of the session again and again. It runs on the head (in the agent of its node, or in a
process of its own), called from its loop thread: it must return at once, and hand slow work to a thread of its own. It
gets the sums since the session began, not differences. One that raises is reported once by name and asked no more.
Nothing is collected unless a sink is chosen, or a program, a command or a page asks.

What a killed worker had counted since the last collection goes with it.

On conflict: named (all chosen ones get the same). On absence nothing is collected, and programs can still ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

MOST_SERIES: Final = 2000
"""Maximum number of series of a metric: values of labels may come from users and must not fill the memory."""
OTHER: Final = "other"
"""Value of all labels of the series that counts values beyond that maximum."""


class FamilySnapshot(NamedTuple):
    """One metric at a moment. A sample is (values of the labels, value); a histogram's value is (counts, sum).

    `bounds` are the upper bounds of a histogram's buckets; `counts` has one more number, for values above the last.
    `process_labels` are the labels that name the process, or a part of it. When the process has ended, their values
    become empty texts and its series are added up: otherwise each process would leave series behind.
    """

    name: str
    kind: str
    description: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    samples: list[tuple[tuple[str, ...], Any]]
    process_labels: tuple[str, ...] = ()


class MetricsSnapshot(NamedTuple):
    """All metrics of a process at a moment; `origin` distinguishes processes."""

    origin: str
    families: list[FamilySnapshot]


@runtime_checkable
class MetricsSink(Protocol):
    """Exports the metrics of a session. See the module's text."""

    interval: float
    """Seconds between two collections, at least `LEAST_INTERVAL_SECONDS`."""

    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        """Take the numbers at `now`, in seconds since the epoch: each name once, the sums over all processes."""
        ...

    def close(self) -> None:
        """The session ends: send what is left. Called once, after the last `take`."""
        ...


LEAST_INTERVAL_SECONDS: Final = 0.1
"""Minimum number of seconds between two collections; a shorter interval of a sink is raised to it."""


def merged(snapshots: Iterable[MetricsSnapshot]) -> tuple[list[FamilySnapshot], set[str]]:
    """Return each metric once, by name, with the sums of each series over all snapshots.

    The second result has the names of metrics that have another kind, other labels or other bounds in a later snapshot.
    Those are left out: their sums would be meaningless, and readers refuse a whole text that contradicts itself.
    """
    found: dict[str, tuple[FamilySnapshot, dict[tuple[str, ...], Any]]] = {}
    unlike: set[str] = set()
    for snapshot in snapshots:
        for family in snapshot.families:
            if not family.samples:
                continue
            first, sums = found.setdefault(family.name, (family, {}))
            if _shape(first) != _shape(family):
                unlike.add(family.name)
            else:
                _add(sums, family)
    return [found[name][0]._replace(samples=list(found[name][1].items())) for name in sorted(found)], unlike


def _shape(family: FamilySnapshot) -> tuple[Any, ...]:
    return family.kind, family.labels, family.bounds


def _add(sums: dict[tuple[str, ...], Any], family: FamilySnapshot) -> None:
    for values, value in family.samples:
        if values not in sums and len(sums) >= MOST_SERIES:
            values = (OTHER,) * len(family.labels)
        before = sums.get(values)
        if before is None:
            sums[values] = value
        elif family.kind == HISTOGRAM:
            counts = [one + other for one, other in zip(before[0], value[0], strict=True)]
            sums[values] = (counts, before[1] + value[1])
        else:
            sums[values] = before + value


def lasting(families: Iterable[FamilySnapshot]) -> list[FamilySnapshot]:
    """Return the families that remain when their process has ended: all but gauges, without names of the process."""
    return [_without_process(family) for family in families if family.kind != GAUGE]


def _without_process(family: FamilySnapshot) -> FamilySnapshot:
    if not family.process_labels:
        return family
    names = [label in family.process_labels for label in family.labels]
    nameless = [
        (tuple("" if is_name else text for is_name, text in zip(names, values, strict=True)), value)
        for values, value in family.samples
    ]
    sums: dict[tuple[str, ...], Any] = {}
    _add(sums, family._replace(samples=nameless))
    return family._replace(samples=list(sums.items()))


def rows(families: Iterable[FamilySnapshot]) -> list[dict[str, Any]]:
    """Return a row per series: `name`, `kind`, `description`, `tags` and `value`.

    A histogram's value is the number of observed values; its row also has their `sum` and the `buckets`: the number of
    values up to each bound and above the previous one.
    """
    found: list[dict[str, Any]] = []
    for family in families:
        for values, value in family.samples:
            tags: Mapping[str, str] = dict(zip(family.labels, values, strict=True))
            row = {"name": family.name, "kind": family.kind, "description": family.description, "tags": tags}
            if family.kind == HISTOGRAM:
                counts, total = value
                buckets = dict(zip((*family.bounds, float("inf")), counts, strict=True))
                found.append({**row, "value": sum(counts), "sum": total, "buckets": buckets})
            else:
                found.append({**row, "value": value})
    return found
