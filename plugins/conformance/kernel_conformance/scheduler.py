"""The conformance suite for schedulers.

    from kernel_conformance.scheduler import SchedulerConformance

    class TestMine(SchedulerConformance):
        make_scheduler = staticmethod(MyScheduler)

Run it with pytest. Say by class attributes what your scheduler does not do, such as `reclaims = False`; they stand in
`kernel_conformance.scheduler_suite`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from kernel_conformance.scheduler_fuzz import random_history
from kernel_conformance.scheduler_groups import GroupConformance
from kernel_conformance.scheduler_leases import LeaseConformance
from kernel_conformance.scheduler_nodes import NodeConformance
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import UNIT
from kernel_spec.scheduling import LeaseReleased, LeaseRequest, LeaseRequested, NodeAdded, Scheduler


class SchedulerConformance(LeaseConformance, NodeConformance, GroupConformance):
    """Every scheduler's tests. `make_scheduler` returns a new, empty one."""

    make_scheduler: Callable[[], Scheduler]

    def test_random_histories(self) -> None:
        for seed in self.fuzz_seeds:
            try:
                random_history(self.harness(), random.Random(seed), self.features())
            except AssertionError as broken:
                raise AssertionError(f"with seed {seed}: {broken}") from broken

    def test_the_same_events_give_the_same_answers(self) -> None:
        orders = []
        for _ in range(2):
            world = self.harness()
            random_history(world, random.Random(7), self.features())
            orders.append((world.order, world.reclaimed))
        assert orders[0] == orders[1], "a scheduler must decide by its events alone"

    def test_an_event_is_cheap(self) -> None:
        trivial = min(_trivial_loop(2000) for _ in range(3))
        cost = min(_seconds_an_event(type(self).make_scheduler(), 100, 500) for _ in range(3))
        assert cost <= trivial * self.most_times_slower, (
            f"an event takes {cost * 1e6:.1f} us, {cost / trivial:.0f} turns of a trivial loop"
        )

    def test_cost_does_not_grow_with_the_queue(self) -> None:
        if not self.flat_cost:
            return
        short = min(_seconds_an_event(type(self).make_scheduler(), 100, 500) for _ in range(3))
        long = min(_seconds_an_event(type(self).make_scheduler(), 20_000, 500) for _ in range(3))
        assert long <= short * 4, f"an event takes {short * 1e6:.1f} us with 100 waiting, {long * 1e6:.1f} with 20000"

    def test_cost_does_not_grow_with_the_nodes(self) -> None:
        if not self.flat_over_nodes:
            return
        few = min(_seconds_an_event(type(self).make_scheduler(), 0, 300, nodes=10) for _ in range(3))
        many = min(_seconds_an_event(type(self).make_scheduler(), 0, 300, nodes=2000) for _ in range(3))
        assert many <= few * 8, f"an event takes {few * 1e6:.1f} us with 10 nodes, {many * 1e6:.1f} with 2000"


def _request(number: int) -> LeaseRequest:
    id = LeaseId(number.to_bytes(8, "big"))
    return LeaseRequest(id, JobId(b"job....."), ProcessId(b"driver.."), {"CPU": UNIT})


def _seconds_an_event(scheduler: Scheduler, waiting: int, turns: int, nodes: int = 1) -> float:
    """Return the processor time of an event while `waiting` requests wait: each turn asks for one lease and ends one.

    Without any that wait, all nodes but one are full.
    """
    for number in range(nodes):
        scheduler.handle(NodeAdded(NodeId(b"node" + number.to_bytes(4, "big")), {"CPU": 8}), 0.0)
    first = 8 * nodes + (waiting or -8)
    for number in range(first):
        scheduler.handle(LeaseRequested(_request(number)), 0.0)
    events = [LeaseRequested(_request(first + turn)) for turn in range(turns)]
    releases = [LeaseReleased(LeaseId(turn.to_bytes(8, "big"))) for turn in range(turns)]
    start = time.process_time()
    for request, release in zip(events, releases, strict=True):
        scheduler.handle(request, 0.0)
        scheduler.handle(release, 0.0)
    return (time.process_time() - start) / (2 * turns)


def _trivial_loop(turns: int) -> float:
    """Return the processor time of one turn of a loop that makes a small object and keeps it in a dictionary."""
    kept: dict[int, tuple[int, str]] = {}
    start = time.process_time()
    for turn in range(turns):
        kept[turn] = (turn, "x")
        kept.pop(turn - 100, None)
    return (time.process_time() - start) / turns
