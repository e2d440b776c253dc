"""The workers of a node: named cases, then random histories."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kernel_processes.node.failed_starts import FAILED_STARTS, KILLED_STARTS_SECONDS
from kernel_processes.node.worker_pool import (
    ACTOR,
    ENDING,
    IDLE,
    LEASED,
    STARTING,
    Assign,
    Instruction,
    LeasedWork,
    RefuseLeases,
    StartWorker,
    UnservedLease,
    WorkerPool,
)
from kernel_spec.ids import LeaseId, ProcessId

KEY = (b"job", "")
OTHER = (b"job", "environment")


def make_pool() -> WorkerPool:
    numbers = itertools.count(1)
    return WorkerPool(lambda: b"worker%d" % next(numbers))


def started(pool: WorkerPool, lease: bytes, key: tuple[bytes, str] = KEY) -> ProcessId:
    """Want a worker that must be started; return its id."""
    [step] = pool.want(LeaseId(lease), key, 0.0)
    assert isinstance(step, StartWorker)
    return step.worker


def test_lease_gets_the_worker_started_for_it() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    assert pool.registered(worker, "peer", 1.0) == [Assign(worker, LeaseId(b"a"))]
    assert pool.workers[worker].state == LEASED
    pool.validate()


def test_idle_worker_is_used_again_by_its_own_kind_only() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    pool.registered(worker, None, 1.0)
    pool.released(worker, 2.0)
    assert pool.workers[worker].state == IDLE
    assert isinstance(pool.want(LeaseId(b"b"), OTHER, 0.0)[0], StartWorker)
    assert pool.want(LeaseId(b"c"), KEY, 0.0) == [Assign(worker, LeaseId(b"c"))]
    pool.validate()


def test_a_worker_serves_leases_with_the_same_devices_only() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    pool.registered(worker, None, 1.0)
    pool.released(worker, 2.0)
    [step] = pool.want(LeaseId(b"gpu"), KEY, 0.0, LeasedWork(devices="GPU:0"))
    assert isinstance(step, StartWorker), "what has run without a device may have looked at all of them"
    assert pool.want(LeaseId(b"b"), KEY, 0.0) == [Assign(worker, LeaseId(b"b"))]
    assert pool.released(worker, 3.0) == [], "the lease of the device waits for the other one"
    assert pool.registered(step.worker, None, 4.0) == [Assign(step.worker, LeaseId(b"gpu"))]
    pool.released(step.worker, 5.0)
    assert isinstance(pool.want(LeaseId(b"other gpu"), KEY, 0.0, LeasedWork(devices="GPU:1"))[0], StartWorker)
    assert pool.want(LeaseId(b"gpu again"), KEY, 0.0, LeasedWork(devices="GPU:0")) == [
        Assign(step.worker, LeaseId(b"gpu again"))
    ]
    pool.validate()


def test_a_worker_that_was_started_ahead_takes_any_devices() -> None:
    pool = make_pool()
    [step] = pool.prestart(KEY)
    assert isinstance(step, StartWorker)
    pool.registered(step.worker, None, 1.0)
    assert pool.want(LeaseId(b"gpu"), KEY, 0.0, LeasedWork(devices="GPU:0")) == [Assign(step.worker, LeaseId(b"gpu"))]


def test_last_used_worker_is_used_first() -> None:
    pool = make_pool()
    first, second = started(pool, b"a"), started(pool, b"b")
    for worker in (first, second):
        pool.registered(worker, None, 0.0)
    pool.released(second, 1.0)
    pool.released(first, 2.0)
    assert pool.want(LeaseId(b"c"), KEY, 0.0) == [Assign(first, LeaseId(b"c"))]


def test_prestart_starts_one_only_when_there_is_none() -> None:
    pool = make_pool()
    [step] = pool.prestart(KEY)
    assert pool.prestart(KEY) == []
    assert pool.want(LeaseId(b"a"), KEY, 0.0) == [], "the one that starts will do"
    assert isinstance(step, StartWorker)
    assert pool.registered(step.worker, None, 0.0) == [Assign(step.worker, LeaseId(b"a"))]
    pool.validate()


def test_waiting_leases_are_served_in_order() -> None:
    pool = make_pool()
    first, second = started(pool, b"a"), started(pool, b"b")
    assert pool.registered(second, None, 0.0) == [Assign(second, LeaseId(b"a"))]
    assert pool.waiting_leases(KEY) == [b"b"]
    assert pool.registered(first, None, 0.0) == [Assign(first, LeaseId(b"b"))]


def test_worker_that_dies_while_it_starts_is_replaced_if_leases_wait() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    gone, [step] = pool.died(worker)
    assert gone is not None and isinstance(step, StartWorker)
    pool.unwant(LeaseId(b"a"))
    assert pool.died(step.worker)[1] == []
    pool.validate()


def test_lease_whose_worker_can_not_be_started_is_given_up_and_the_next_one_tries_again() -> None:
    pool = make_pool()
    first = started(pool, b"a")
    second = started(pool, b"b")
    assert pool.could_not_start(second) == [(b"b", 0)], "the first, which is on its way, will do for one of them"
    pool.validate()
    assert pool.registered(first, None, 0.0) == [Assign(first, LeaseId(b"a"))]
    third = started(pool, b"c")
    assert pool.could_not_start(third) == [(b"c", 0)]
    started(pool, b"d")
    pool.validate()


def test_leases_are_given_up_after_three_workers_that_died_though_others_start_meanwhile() -> None:
    pool = make_pool()
    dying = [started(pool, lease) for lease in (b"a", b"b")]
    given_up: list[UnservedLease] = []
    deaths = 0
    while dying:
        worker = dying.pop(0)
        pool.workers[worker].pid = 1
        deaths += 1
        for step in pool.died(worker)[1]:
            if isinstance(step, RefuseLeases):
                given_up += step.leases
            else:
                assert isinstance(step, StartWorker)
                dying.append(step.worker)
        pool.validate()
    assert deaths == FAILED_STARTS + 1
    assert sorted(given_up) == [(b"a", 0), (b"b", 0)]


def test_a_fork_that_fails_counts_and_one_that_its_template_died_before_does_not() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    for _ in range(2 * FAILED_STARTS):
        [step] = pool.died(worker)[1]
        assert isinstance(step, StartWorker)
        worker = step.worker
    for _ in range(FAILED_STARTS - 1):
        pool.workers[worker].cause = "no room"
        [step] = pool.died(worker)[1]
        assert isinstance(step, StartWorker)
        worker = step.worker
    pool.workers[worker].cause = "no room"
    gone, [step] = pool.died(worker)
    assert isinstance(step, RefuseLeases) and step.leases == ((b"a", 0),) and gone is step.worker
    assert isinstance(pool.want(LeaseId(b"b"), KEY, 0.0)[0], StartWorker)


def test_workers_that_are_killed_while_they_start_are_replaced_for_a_minute() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    for seconds in (0.0, 0.1, 0.2, 0.3, KILLED_STARTS_SECONDS - 0.1):
        pool.workers[worker].pid = 1
        [step] = pool.died(worker, killed_at=100.0 + seconds)[1]
        assert isinstance(step, StartWorker), seconds
        worker = step.worker
        pool.validate()
    pool.workers[worker].pid = 1
    [step] = pool.died(worker, killed_at=100.0 + KILLED_STARTS_SECONDS)[1]
    assert isinstance(step, RefuseLeases) and step.leases == ((b"a", 0),)
    assert step.reason == "every worker of the last 60 s was killed before it was up"


def test_a_worker_that_comes_up_ends_the_count_of_those_that_were_killed() -> None:
    pool = make_pool()
    first, second = started(pool, b"a"), started(pool, b"b")
    pool.workers[first].pid = pool.workers[second].pid = 1
    [step] = pool.died(first, killed_at=0.0)[1]
    pool.registered(second, None, 1.0)
    assert isinstance(step, StartWorker)
    pool.workers[step.worker].pid = 1
    [again] = pool.died(step.worker, killed_at=KILLED_STARTS_SECONDS)[1]
    assert isinstance(again, StartWorker)


def test_a_kill_neither_counts_as_a_broken_start_nor_forgives_one() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    for number in range(FAILED_STARTS - 1):
        for killed_at in (None, float(number)):
            pool.workers[worker].pid = 1
            [step] = pool.died(worker, killed_at)[1]
            assert isinstance(step, StartWorker)
            worker = step.worker
    pool.workers[worker].pid = 1
    [step] = pool.died(worker)[1]
    assert isinstance(step, RefuseLeases) and step.reason == "3 workers in a row did not come up"


def test_a_key_is_forgotten_with_its_last_worker() -> None:
    pool = make_pool()
    first, second = started(pool, b"a"), started(pool, b"b")
    pool.registered(first, None, 0.0)
    pool.released(first, 0.0)
    pool.unwant(LeaseId(b"b"))
    for worker in (first, second):
        assert pool.died(worker)[1] == []
        pool.validate()


def test_worker_told_to_end_before_it_came_up_is_not_used() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    pool.ends(worker, "its program ended")
    assert pool.registered(worker, None, 0.0) == []
    assert pool.workers[worker].state == ENDING
    pool.validate()


def test_worker_that_need_not_retire_after_all_is_used_again() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    pool.registered(worker, None, 0.0)
    pool.released(worker, 0.0)
    [record] = pool.to_retire(100.0, keep=0, after=15.0)
    assert isinstance(pool.want(LeaseId(b"b"), KEY, 0.0)[0], StartWorker), "it may be gone any moment"
    pool.stays(record)
    assert pool.want(LeaseId(b"c"), KEY, 0.0) == [Assign(worker, LeaseId(b"c"))]
    pool.validate()


def test_actor_is_never_released_into_the_pool() -> None:
    pool = make_pool()
    worker = started(pool, b"a")
    pool.registered(worker, None, 0.0)
    pool.becomes_actor(worker)
    assert pool.released(worker, 1.0) == []
    assert pool.workers[worker].state == ACTOR


def test_retires_only_those_that_were_idle_longest_and_are_too_many() -> None:
    pool = make_pool()
    workers = [started(pool, b"%d" % i) for i in range(4)]
    for worker in workers:
        pool.registered(worker, None, 0.0)
    for number, worker in enumerate(workers):
        pool.released(worker, float(number))
    assert pool.to_retire(10.0, keep=2, after=15.0) == []
    assert [w.id for w in pool.to_retire(17.5, keep=2, after=15.0)] == workers[:2]
    assert pool.to_retire(17.5, keep=2, after=15.0) == []


def test_a_worker_does_the_work_of_its_lease_from_when_on_it_has_it() -> None:
    pool = make_pool()
    square, cube = LeasedWork("square", grant=7), LeasedWork("cube", grant=8)
    [step] = pool.want(LeaseId(b"a"), KEY, 1.0, square)
    worker = pool.workers[step.worker]
    assert worker.work == LeasedWork()
    pool.registered(worker.id, None, 2.0)
    assert (worker.work, worker.leased_at) == (square, 2.0)
    pool.unwant(LeaseId(b"a"))
    pool.released(worker.id, 3.0)
    assert worker.work == LeasedWork()
    pool.want(LeaseId(b"b"), KEY, 4.0, cube)
    assert (worker.work, worker.leased_at) == (cube, 4.0)


def test_a_lease_that_gets_no_worker_is_named_with_its_grant() -> None:
    pool = make_pool()
    [step] = pool.want(LeaseId(b"a"), KEY, 0.0, LeasedWork("square", grant=7))
    assert pool.could_not_start(step.worker) == [UnservedLease(LeaseId(b"a"), 7)]


def test_what_a_later_head_must_be_told_of_a_lease_is_kept_until_it_is_over() -> None:
    pool = make_pool()
    workers = []
    for lease in (b"a", b"b", b"c"):
        [step] = pool.want(LeaseId(lease), KEY, 0.0, held=b"held of " + lease)
        workers.append(step.worker)
    pool.want(LeaseId(b"d"), OTHER, 0.0)
    assert pool.held == {lease: b"held of " + lease for lease in (b"a", b"b", b"c")}, "of the last there is nothing"
    pool.registered(workers[0], None, 1.0)
    pool.died(workers[0])
    assert sorted(pool.held) == [b"b", b"c"]
    pool.unwant(LeaseId(b"b"))
    assert sorted(pool.held) == [b"c"]
    pool.could_not_start(workers[2])
    assert sorted(pool.held) == [b"c"], "the other one, which is on its way, will do"
    pool.could_not_start(workers[1])
    assert pool.held == {}
    pool.validate()


class PoolLife(RuleBasedStateMachine):
    """Any order of events. Every lease that is wanted is served, or a worker that will serve it is on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = make_pool()
        self.now = 0.0
        self.leases = 0
        self.starting: set[ProcessId] = set()
        self.wanted: dict[LeaseId, tuple[bytes, str]] = {}
        self.devices: dict[LeaseId, str] = {}
        self.used: dict[ProcessId, str] = {}
        self.served: dict[LeaseId, ProcessId] = {}

    def carry_out(self, steps: Sequence[Instruction]) -> None:
        for step in steps:
            if isinstance(step, StartWorker):
                self.starting.add(step.worker)
            elif isinstance(step, RefuseLeases):
                assert step.leases, "nobody is given up"
                for lease, _ in step.leases:
                    del self.wanted[lease]
            else:
                worker = self.pool.workers[step.worker]
                assert worker.key == self.wanted.pop(step.lease), "a lease got a worker of another kind"
                assert self.used.setdefault(worker.id, self.devices[step.lease]) == self.devices[step.lease]
                assert worker.state == LEASED and worker.id not in self.served.values()
                self.served[step.lease] = step.worker

    def pick(self, data: st.DataObject, *states: str) -> ProcessId | None:
        found = sorted(w.id for w in self.pool.workers.values() if w.state in states)
        return data.draw(st.sampled_from(found)) if found else None

    @rule(
        key=st.sampled_from([KEY, OTHER]),
        devices=st.sampled_from(["", "GPU:0", "GPU:1"]),
        held=st.sampled_from([b"", b"held"]),
    )
    def want(self, key: tuple[bytes, str], devices: str, held: bytes) -> None:
        self.leases += 1
        lease = LeaseId(b"lease%d" % self.leases)
        self.wanted[lease] = key
        self.devices[lease] = devices
        self.carry_out(self.pool.want(lease, key, self.now, LeasedWork(devices=devices), held))

    @rule(key=st.sampled_from([KEY, OTHER]))
    def prestart(self, key: tuple[bytes, str]) -> None:
        self.carry_out(self.pool.prestart(key))

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def unwant(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.wanted)))
        del self.wanted[lease]
        self.pool.unwant(lease)

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def register(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.starting)))
        self.starting.discard(worker)
        self.carry_out(self.pool.registered(worker, "peer", self.now))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        worker = self.pick(data, LEASED)
        if worker is not None:
            (lease,) = [lease for lease, w in self.served.items() if w == worker]
            del self.served[lease]
            self.pool.unwant(lease)
            self.carry_out(self.pool.released(worker, self.now))

    @rule(data=st.data())
    def become_actor(self, data: st.DataObject) -> None:
        worker = self.pick(data, LEASED)
        if worker is not None:
            self.pool.becomes_actor(worker)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        worker = self.pick(data, STARTING, IDLE, LEASED, ACTOR, ENDING)
        if worker is not None:
            self.pool.ends(worker, "told to")

    @rule(data=st.data(), pid=st.integers(0, 1))
    def die(self, data: st.DataObject, pid: int) -> None:
        worker = self.pick(data, STARTING, IDLE, LEASED, ACTOR, ENDING)
        if worker is not None:
            self.pool.workers[worker].pid = pid
            self.starting.discard(worker)
            self.served = {lease: w for lease, w in self.served.items() if w != worker}
            record, steps = self.pool.died(worker)
            assert record is not None
            self.carry_out(steps)

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def not_start(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.starting)))
        self.starting.discard(worker)
        for lease, _ in self.pool.could_not_start(worker):
            del self.wanted[lease]

    @rule(seconds=st.sampled_from([0.0, 1.0, 20.0]), keep=st.integers(0, 2))
    def retire(self, seconds: float, keep: int) -> None:
        self.now += seconds
        for worker in self.pool.to_retire(self.now, keep, 15.0):
            assert worker.state == IDLE

    @rule(data=st.data())
    def stay(self, data: st.DataObject) -> None:
        retiring = sorted(w.id for w in self.pool.workers.values() if w.retiring)
        if retiring:
            self.pool.stays(self.pool.workers[data.draw(st.sampled_from(retiring))])

    @invariant()
    def books_add_up(self) -> None:
        self.pool.validate()

    @invariant()
    def who_waits_is_known(self) -> None:
        for key in (KEY, OTHER):
            assert set(self.pool.waiting_leases(key)) == {lease for lease, k in self.wanted.items() if k == key}


PoolLife.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPoolLife = PoolLife.TestCase
