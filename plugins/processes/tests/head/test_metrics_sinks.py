"""Sinks are told in their time, and one that raises costs itself only."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from kernel_processes.head.collected_metrics import CollectedMetrics
from kernel_processes.head.metrics_service import MetricsService
from kernel_processes.head.metrics_sinks import MetricsSinks
from kernel_spec.ids import ProcessId
from kernel_spec.metrics import COUNTER, GAUGE, LEAST_INTERVAL_SECONDS, FamilySnapshot, MetricsSnapshot


class Service:
    """Answers at once with what the session has."""

    asked = 0

    def __init__(self) -> None:
        self.collected = CollectedMetrics()

    def told(self) -> Iterable[MetricsSnapshot]:
        return self.collected.load()

    def collect(self, then: Callable[[MetricsSnapshot], None]) -> None:
        self.asked += 1
        then(MetricsSnapshot("session", [FamilySnapshot("nodes", GAUGE, "", (), (), [((), self.asked)])]))


class Sink:
    """Keeps what it is told."""

    def __init__(self, interval: Any = 10.0) -> None:
        self.interval = interval
        self.taken: list[tuple[float, dict[str, Any]]] = []
        self.closed = 0

    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        self.taken.append((now, {family.name: family.samples[0][1] for family in families}))

    def close(self) -> None:
        self.closed += 1


class FragileSink(Sink):
    """Breaks when it is told for the second time."""

    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        super().take(now, families)
        if len(self.taken) == 2:
            raise RuntimeError("a wheel came off")


class World:
    """A head's loop and what its sinks need."""

    def __init__(self, *sinks: Any) -> None:
        self.service = Service()
        self.collected = self.service.collected
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.faults: list[tuple[Sink, Exception]] = []
        self.now = 0.0
        self.sinks = MetricsSinks(
            sinks,
            cast("MetricsService", self.service),
            lambda seconds, function: self.timers.append((self.now + seconds, function)),
            lambda: self.now,
            lambda sink, error: self.faults.append((sink, error)),
        )

    def run(self, until: float) -> None:
        """Let time pass."""
        while (due := min(self.timers, key=lambda timer: timer[0], default=(until + 1, None)))[0] <= until:
            self.timers.remove(cast("tuple[float, Callable[[], None]]", due))
            self.now = due[0]
            cast("Callable[[], None]", due[1])()


def told(count: float) -> bytes:
    """Return what a process tells that has counted so much."""
    return pickle.dumps(MetricsSnapshot("x", [FamilySnapshot("c_total", COUNTER, "", (), (), [((), count)])]))


def test_each_sink_is_told_in_its_interval() -> None:
    slow, quick = Sink(10.0), Sink(4.0)
    world = World(slow, quick)
    world.sinks.start()
    world.collected.answered(ProcessId(b"one"), told(3))
    world.run(until=12.0)
    assert [now for now, _ in slow.taken] == [10.0] and [now for now, _ in quick.taken] == [4.0, 8.0, 12.0]
    assert quick.taken[0][1] == {"c_total": 3, "nodes": 1}
    assert world.faults == []


def test_without_sinks_nothing_is_collected() -> None:
    world = World()
    world.sinks.start()
    world.run(until=100.0)
    world.sinks.close()
    assert world.service.asked == 0


def test_a_sink_that_is_in_a_hurry_waits_a_little() -> None:
    hasty = Sink(0.0)
    world = World(hasty)
    world.sinks.start()
    world.run(until=5.5 * LEAST_INTERVAL_SECONDS)
    assert len(hasty.taken) == 5


def test_one_that_raises_is_reported_once_and_asked_no_more() -> None:
    fragile, well, wrong = FragileSink(1.0), Sink(1.0), Sink("soon")
    world = World(fragile, well, wrong)
    world.sinks.start()
    world.run(until=5.0)
    world.sinks.close()
    assert (len(fragile.taken), fragile.closed) == (2, 0)
    assert (len(well.taken), well.closed) == (6, 1)
    assert (len(wrong.taken), wrong.closed) == (0, 0)
    assert len(world.faults) == 2
    (first, why), (second, why_not) = world.faults
    assert type(first) is Sink and str(why) == "could not convert string to float: 'soon'"
    assert type(second) is FragileSink and str(why_not) == "a wheel came off"


def test_at_the_end_sinks_get_what_processes_told_last() -> None:
    sink = Sink()
    world = World(sink)
    world.sinks.start()
    world.collected.ending(ProcessId(b"one"), told(7))
    world.sinks.close()
    world.run(until=100.0)
    world.sinks.close()
    assert sink.taken == [(0.0, {"c_total": 7})]
    assert sink.closed == 1
