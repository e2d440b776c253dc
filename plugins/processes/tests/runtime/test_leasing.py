"""Which tasks go to which leased worker: the rules one by one, and the books under any order of events."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kernel.runtime.definitions import Shape
from kernel_processes.runtime.leasing import (
    BACKLOG_SECONDS,
    IDLE_SECONDS,
    MAXIMUM_IN_FLIGHT,
    MAXIMUM_REQUESTS,
    WINDOW_SECONDS,
    LeasePool,
    WorkerLease,
)

_numbers = itertools.count()
QUICK = WINDOW_SECONDS / 50
LONG = 1.0


def make_task():
    return SimpleNamespace(id=next(_numbers), place=None, cancelled=False, estimate=0.0)


def make_pool(leases=1):
    pool = LeasePool(Shape({"CPU": 10_000}))
    for _ in range(leases):
        pool.leases.append(WorkerLease(next(_numbers), pool, b"worker", None))
    return pool


def fill(pool, lease, count, estimate):
    tasks = [make_task() for _ in range(count)]
    for task in tasks:
        pool.start(lease, task, estimate)
    return tasks


def test_an_idle_lease_takes_any_task():
    pool = make_pool()
    assert pool.pick() is pool.leases[0]


def test_one_long_task_fills_a_lease():
    pool = make_pool()
    fill(pool, pool.leases[0], 1, LONG)
    assert pool.pick() is None


def test_quick_tasks_are_sent_ahead_but_not_for_ever():
    pool = make_pool()
    (lease,) = pool.leases
    sent = 0
    while pool.pick() is not None:
        fill(pool, lease, 1, QUICK)
        sent += 1
    assert sent == 50


def test_tasks_that_take_no_time_are_bounded_by_their_number():
    pool = make_pool()
    fill(pool, pool.leases[0], MAXIMUM_IN_FLIGHT, 0.0)
    assert pool.pick() is None


def test_the_emptiest_lease_is_picked():
    pool = make_pool(3)
    fill(pool, pool.leases[0], 2, QUICK)
    fill(pool, pool.leases[2], 1, QUICK)
    assert pool.pick() is pool.leases[1]
    fill(pool, pool.leases[1], 3, QUICK)
    assert pool.pick() is pool.leases[2]


def test_a_reclaimed_lease_takes_nothing():
    pool = make_pool()
    pool.leases[0].reclaimed = True
    assert pool.pick() is None
    assert pool.to_return(0.0) == pool.leases


def test_as_many_leases_are_asked_for_as_are_useful():
    pool = make_pool(0)
    assert pool.missing_requests() == 0
    pool.push(make_task(), QUICK)
    assert pool.missing_requests() == 1
    for _ in range(49):
        pool.push(make_task(), QUICK)
    assert pool.missing_requests() == 1  # one window of work
    for _ in range(100):
        pool.push(make_task(), LONG)
    assert pool.missing_requests() == MAXIMUM_REQUESTS
    pool.requested = {index: 0.0 for index in range(10)}
    assert pool.missing_requests() == MAXIMUM_REQUESTS - 10


def test_cancelled_tasks_are_passed_over():
    pool = make_pool()
    tasks = [make_task() for _ in range(3)]
    for task in tasks:
        pool.push(task, QUICK)
    tasks[0].cancelled = tasks[2].cancelled = True
    assert pool.pop() is tasks[1]
    assert pool.pop() is None
    assert pool.queued_seconds == 0.0


def test_idle_leases_are_kept_for_a_moment():
    pool = make_pool()
    (task,) = fill(pool, pool.leases[0], 1, LONG)
    pool.finish(task, 5.0)
    assert pool.to_return(5.0 + IDLE_SECONDS / 2) == []
    assert pool.to_return(5.001 + IDLE_SECONDS) == pool.leases


def test_a_lease_that_gave_tasks_back_gets_none_until_it_gets_on():
    pool = make_pool()
    (lease,) = pool.leases
    running, *behind = fill(pool, lease, 3, QUICK)
    for task in reversed(behind):
        pool.returned(task, 1.0)
    assert list(pool.queue) == behind
    assert all(task.place is None for task in behind)
    assert pool.pick() is None
    pool.finish(running, 2.0)
    assert pool.pick() is lease


def test_a_lease_that_gave_everything_back_is_free():
    pool = make_pool()
    (task,) = fill(pool, pool.leases[0], 1, QUICK)
    pool.returned(task, 1.0)
    assert pool.pick() is pool.leases[0]


def test_what_is_behind_a_long_task_is_asked_back_once_somebody_is_idle():
    pool = make_pool(2)
    stuck, idle = pool.leases
    tasks = fill(pool, stuck, 4, QUICK)
    assert pool.to_rebalance(0.001) == []  # not yet long
    assert pool.to_rebalance(1.0) == [stuck]
    assert pool.to_rebalance(1.1) == []  # asked already
    pool.finish(tasks[0], 1.2)
    assert pool.to_rebalance(1.21) == []
    assert pool.to_rebalance(2.0) == [stuck]
    fill(pool, idle, 1, LONG)
    stuck.asked_back = False
    assert pool.to_rebalance(3.0) == []


def test_a_lost_lease_names_what_it_held_in_order():
    pool = make_pool(2)
    lost = pool.leases[0]
    tasks = fill(pool, lost, 3, QUICK)
    assert pool.lost(lost) == tasks
    assert lost not in pool.leases


def test_equal_shapes_have_equal_keys():
    assert Shape({"CPU": 1, "a": 2}).key == Shape({"a": 2, "CPU": 1}).key
    assert Shape({"CPU": 1}).key != Shape({"CPU": 2}).key
    assert Shape({"CPU": 1}).key != Shape({"CPU": 1}, environment=b"x").key
    assert Shape({"CPU": 1}).key != Shape({"CPU": 1}, strategy="SPREAD").key


def test_validate_notices_wrong_books():
    pool = make_pool()
    fill(pool, pool.leases[0], 1, QUICK)
    pool.leases[0].load += 1
    with pytest.raises(AssertionError, match="load"):
        pool.validate()


class Books(RuleBasedStateMachine):
    """Any order of events; every task is always in exactly one place."""

    def __init__(self):
        super().__init__()
        self.pool = make_pool(0)
        self.now = 0.0
        self.queued = set()
        self.running = {}
        self.tasks = {}

    estimates = st.sampled_from([0.0, QUICK, WINDOW_SECONDS, LONG])

    @rule(estimate=estimates)
    def push(self, estimate):
        task = make_task()
        self.tasks[task.id] = task
        self.pool.push(task, estimate)
        self.queued.add(task.id)

    @rule()
    def grant(self):
        self.pool.leases.append(
            WorkerLease(next(_numbers), self.pool, b"w", None, idle_since=self.now, progress_at=self.now)
        )

    @rule(estimate=estimates)
    def dispatch(self, estimate):
        while self.pool.queue:
            lease = self.pool.pick()
            if lease is None:
                return
            assert lease.has_room
            task = self.pool.pop()
            self.pool.start(lease, task, estimate)
            self.queued.discard(task.id)
            self.running[task.id] = lease

    @precondition(lambda self: self.running)
    @rule(data=st.data(), seconds=st.floats(0, 1))
    def finish(self, data, seconds):
        self.now += seconds
        id = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[id]
        self.pool.finish(self.tasks[id], self.now)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def give_back(self, data):
        id = data.draw(st.sampled_from(sorted(self.running)))
        lease = self.running.pop(id)
        self.pool.returned(self.tasks[id], self.now)
        self.queued.add(id)
        assert not (lease.in_flight and lease.has_room)

    @precondition(lambda self: self.pool.leases)
    @rule(data=st.data())
    def lose(self, data):
        lease = self.pool.leases[data.draw(st.integers(0, len(self.pool.leases) - 1))]
        for task in self.pool.lost(lease):
            del self.running[task.id]
            task.place = None
            self.pool.push(task, QUICK)
            self.queued.add(task.id)

    @precondition(lambda self: self.pool.leases)
    @rule(data=st.data())
    def reclaim(self, data):
        self.pool.leases[data.draw(st.integers(0, len(self.pool.leases) - 1))].reclaimed = True

    @rule()
    def housekeeping(self):
        self.now += IDLE_SECONDS
        for lease in self.pool.to_return(self.now):
            assert not lease.in_flight
            self.pool.leases.remove(lease)
        for lease in self.pool.to_rebalance(self.now):
            assert len(lease.in_flight) > 1

    @invariant()
    def everything_is_in_one_place(self):
        self.pool.validate()
        assert {task.id for task in self.pool.queue} == self.queued
        held = {id: lease for lease in self.pool.leases for id in lease.in_flight}
        assert held == self.running
        expected = sum(task.estimate for task in self.pool.queue)
        assert self.pool.queued_seconds == pytest.approx(expected, abs=1e-6)
        assert 0 <= self.pool.missing_requests() <= MAXIMUM_REQUESTS


Books.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBooks = Books.TestCase


def waiting_pool(tasks: int, requests: int = 2) -> LeasePool:
    pool = make_pool(leases=0)
    for _ in range(tasks):
        pool.push(make_task(), 0.5)
    pool.requested = dict.fromkeys(range(requests), 0.0)
    return pool


def test_the_tasks_behind_the_requests_are_reported_for_the_oldest():
    pool = waiting_pool(tasks=12)
    lease, tasks, seconds, _ = pool.backlog_report(0.0, True)
    assert (lease, tasks, seconds) == (0, 10, 5.0)
    assert pool.backlog_report(0.1, True) is None, "nothing has changed"
    del pool.requested[0]
    assert pool.backlog_report(0.2, True)[:2] == (1, 11), "the oldest was granted: another stands for the rest"


@pytest.mark.parametrize(("more", "reported"), [(9, False), (10, True), (-4, False), (-5, True)])
def test_a_backlog_is_reported_again_when_it_has_doubled_or_halved(more, reported):
    pool = waiting_pool(tasks=12)
    pool.backlog_report(0.0, True)
    for _ in range(abs(more)):
        if more > 0:
            pool.push(make_task(), 0.5)
        else:
            pool.pop()
    assert (pool.backlog_report(0.1, True) is not None) == reported


def test_tasks_that_nobody_has_timed_may_take_for_ever():
    assert waiting_pool(tasks=12).backlog_report(0.0, False)[1:3] == (10, math.inf)


def test_a_backlog_is_repeated_now_and_then_and_its_end_is_told():
    pool = waiting_pool(tasks=12)
    pool.backlog_report(0.0, True)
    assert pool.backlog_report(BACKLOG_SECONDS, True).tasks == 10
    while len(pool.queue) > 2:
        pool.pop()
    assert pool.backlog_report(BACKLOG_SECONDS, True)[1:3] == (0, 0.0)
    assert pool.backlog_report(3 * BACKLOG_SECONDS, True) is None


def test_without_a_backlog_or_a_request_nothing_is_reported():
    assert waiting_pool(tasks=2).backlog_report(0.0, True) is None
    assert waiting_pool(tasks=2, requests=0).backlog_report(0.0, True) is None


def test_cancelled_tasks_leave_the_queue_and_what_is_expected_of_it():
    pool = make_pool(0)
    tasks = [make_task() for _ in range(5)]
    for task in tasks:
        pool.push(task, 2.0)
    assert not pool.drop_cancelled()
    tasks[0].cancelled = tasks[3].cancelled = pool.has_cancelled = True
    assert pool.drop_cancelled() and not pool.drop_cancelled()
    assert list(pool.queue) == [tasks[1], tasks[2], tasks[4]] and pool.queued_seconds == 6.0
    pool.has_cancelled = True
    assert not pool.drop_cancelled(), "the cancelled one was sent to a worker before"
