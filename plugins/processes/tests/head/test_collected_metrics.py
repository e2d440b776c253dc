"""Every process counts once, whenever it ends and in whichever order its answers come."""

from __future__ import annotations

import pickle

from kernel_processes.head.collected_metrics import CollectedMetrics
from kernel_spec.ids import ProcessId
from kernel_spec.metrics import COUNTER, GAUGE, FamilySnapshot, MetricsSnapshot, merged

ONE, OTHER = ProcessId(b"one"), ProcessId(b"other")


def told(count: float) -> bytes:
    """Return what a process tells that has counted so much."""
    counted = FamilySnapshot("c_total", COUNTER, "", (), (), [((), count)])
    depth = FamilySnapshot("depth", GAUGE, "", (), (), [((), count)])
    return pickle.dumps(MetricsSnapshot("x", [counted, depth]))


def sums(collected: CollectedMetrics) -> dict[str, float]:
    """Return the sums of all that was told, which are the same for whoever unpickles it."""
    there = {family.name: family.samples[0][1] for family in merged(collected.load())[0]}
    travelled = pickle.loads(pickle.dumps(collected.snapshots()))
    assert there == {family.name: family.samples[0][1] for family in merged(travelled)[0]}
    return there


def test_the_latest_answer_of_a_process_counts() -> None:
    collected = CollectedMetrics()
    assert sums(collected) == {}
    collected.answered(ONE, told(1))
    collected.answered(ONE, told(3))
    collected.answered(OTHER, told(10))
    assert sums(collected) == {"c_total": 13, "depth": 13}


def test_what_an_ended_process_counted_stays_but_for_gauges() -> None:
    collected = CollectedMetrics()
    collected.answered(ONE, told(1))
    collected.ending(ONE, told(4))
    collected.ended(ONE)
    collected.answered(OTHER, told(10))
    assert sums(collected) == {"c_total": 14, "depth": 10}


def test_a_killed_process_leaves_what_it_told_last() -> None:
    collected = CollectedMetrics()
    collected.answered(ONE, told(2))
    collected.ended(ONE)
    collected.ended(OTHER)
    assert sums(collected) == {"c_total": 2}


def test_an_answer_that_comes_after_the_end_is_not_counted_again() -> None:
    collected = CollectedMetrics()
    collected.ending(ONE, told(4))
    collected.answered(ONE, told(3))
    collected.ending(ONE, told(4))
    assert sums(collected) == {"c_total": 4}
