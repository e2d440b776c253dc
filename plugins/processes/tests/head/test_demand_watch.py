"""An autoscaler is told at once that something new waits, and nothing is counted where none listens."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.protocol import head_messages
from kernel_spec.ids import LeaseId
from plugins.processes.tests.head.head_bench import DRIVER, GROUP, WORKER, Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.join()
    yield bench
    assert bench.ended == []


def wait(bench: Bench, known: int, seconds: float = 30.0) -> int | None:
    """Ask as the driver; return the answer, None if there is none yet."""
    bench.received_by(DRIVER)
    found: int | None = bench.call("wait_for_demand", known, seconds)
    return found


def test_a_request_that_waits_is_told_at_once_and_one_that_is_granted_is_not(bench: Bench) -> None:
    assert wait(bench, -1) == 0
    assert wait(bench, 0) is None
    bench.lease(b"lease--1", served=WORKER, group=False)
    assert bench.answer() is None
    bench.lease(b"lease--2", granted=False, group=False)
    assert bench.answer() == 1
    bench.lease(b"lease--3", granted=False, group=False)
    assert wait(bench, 1) == 2, "what came between two questions is told by the second"


def test_groups_more_tasks_lost_nodes_and_bundles_asked_for_are_told(bench: Bench) -> None:
    bench.lease(b"lease--1", granted=False, group=False)
    known = wait(bench, -1)
    assert known == 0
    bench.call("create_placement_group", GROUP.hex(), [{"CPU": 10_000}], "PACK", "", "", False, pickle.dumps({}))
    assert wait(bench, 0) == 1
    for tasks, count in ((70, 2), (30, 2), (31, 3)):
        backlog = packed(op.Backlog(lease=LeaseId(b"lease--1"), tasks=tasks, seconds=3.5))
        bench.tell(0, head_messages.FROM_PROCESS, DRIVER, backlog)
        assert wait(bench, -1) == count, "only more tasks are news"
    bench.head.remove_node(bench.nodes[1], "it died")
    assert wait(bench, 3) == 4
    bench.call("request_resources", [{"CPU": 8}])
    assert wait(bench, 4) == 5


def test_a_question_is_answered_after_its_time_and_then_forgotten(bench: Bench) -> None:
    wait(bench, -1)
    assert wait(bench, 0, seconds=100.0) is None
    seconds, give_up = bench.timers[-1]
    assert seconds == 60.0, "the head keeps no question for longer"
    give_up()
    assert bench.answer() == 0
    bench.lease(b"lease--1", granted=False, group=False)
    assert bench.answer() is None
    give_up()
    assert bench.answer() is None


def test_nothing_is_looked_at_before_a_question_and_long_after_the_last(bench: Bench) -> None:
    leases = bench.head.lease_manager
    bench.call("request_resources", [{"CPU": 8}])
    bench.lease(b"lease--1", granted=False, group=False)
    assert leases.follow is None
    assert wait(bench, -1) == 0
    assert leases.follow is not None
    bench.now += 60.0
    bench.lease(b"lease--2", granted=False, group=False)
    assert leases.follow is not None
    bench.now += 0.1
    bench.lease(b"lease--3", granted=False, group=False)
    assert leases.follow is None
    bench.lease(b"lease--4", granted=False, group=False)
    assert wait(bench, -1) == 2, "it was not counted"
