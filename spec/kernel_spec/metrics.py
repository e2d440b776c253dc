"""The metrics contract: what processes count, as values that travel, and sinks that send it elsewhere.

A metric is a counter, a gauge or a histogram with a name. It has one series per combination of the values of its
labels, and at most `MOST_SERIES` of them. Each process counts for itself and sends nothing. Whoever wants the numbers
of a session asks for them: the head takes a snapshot of every process, and adds up what they say of one series. What
ended processes counted stays in counters and histograms; their gauges go with them.

A sink is handed all snapshots of the session again and again. It runs on the head (in the agent of its node, or in a
process of its own), called from its loop thread: it must return at once, and hand slow work to a thread of its own. It
gets the sums since the session began, not differences. One that raises is reported once by name and asked no more.
Nothing is collected unless a sink is chosen, or a program, a command or a page asks.

What a killed worker had counted since the last collection goes with it.

On conflict: named (those chosen, each told the same). On absence nothing is collected, and programs can still ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

MOST_SERIES: Final = 2000
"""The number of series that a metric may have: values of labels may come from users and must not fill the memory."""
OTHER: Final = "other"
"""The value of all labels of the series that counts what came after that."""


class FamilySnapshot(NamedTuple):
    """One metric at a moment. A sample is (values of the labels, value); that of a histogram is (counts, sum).

    `bounds` are the upper bounds of a histogram's buckets; `counts` has one number more, for what is above the last.
    `process_labels` are those of the labels that name the process which counts, or a part of it. Once it has ended,
    what it counted is added up with an empty text as their value: else each process would leave series behind.
    """

    name: str
    kind: str
    description: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    samples: list[tuple[tuple[str, ...], Any]]
    process_labels: tuple[str, ...] = ()


class MetricsSnapshot(NamedTuple):
    """All metrics of a process at a moment; `origin` tells processes apart."""

    origin: str
    families: list[FamilySnapshot]


@runtime_checkable
class MetricsSink(Protocol):
    """Takes the numbers of a session elsewhere. See the module's text."""

    interval: float
    """How many seconds to leave between two collections, at least `LEAST_INTERVAL_SECONDS`."""

    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        """Take the numbers at `now`, in seconds since the epoch: each name once, the sums over all processes."""
        ...

    def close(self) -> None:
        """The session ends: send what is left. Called once, after the last `take`."""
        ...


LEAST_INTERVAL_SECONDS: Final = 0.1
"""A sink that wants to be told more often is told this often."""


def merged(snapshots: Iterable[MetricsSnapshot]) -> tuple[list[FamilySnapshot], set[str]]:
    """Return each metric once, by name, with the sums of what the snapshots say of each series.

    The other result are the names that are another kind of metric, or have other labels or bounds, in a later snapshot.
    That is left out: sums of unlike things would be wrong, and a text that contradicts itself is refused as a whole.
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
    """Return what stays when the process that counted it has ended: all but gauges, without names of the process."""
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

    A histogram's value is how many values there were; its row has also their `sum` and the `buckets`: how many were up
    to each bound and above the one before.
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
