"""The workers of a node: leases that find one or are refused, workers that die, and templates that do."""

from __future__ import annotations

import itertools
import pickle
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.node import worker_service
from kernel_processes.node.failed_starts import FAILED_STARTS
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.store_quotas import StoreQuotas
from kernel_processes.node.worker_leases import WorkerLeases
from kernel_processes.node.worker_pool import ENDING, IDLE, LEASED, StartWorker, WorkerPool, WorkerRecord
from kernel_processes.node.worker_service import WorkerService
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.identity import Peer
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import RuntimeEnvError, SessionEndedError, WorkerDiedError
from kernel_spec.ids import JobId, LeaseId, ProcessId

JOB, LEASE, OTHER = JobId(b"job-1234"), LeaseId(b"lease--1"), LeaseId(b"lease--2")
KILLED = signal.SIGKILL.value
GRANT = 7
WORK = ("square", b"driver", 0, 500, False, GRANT, "")
"""The fields of a `LeasedWork` that may hold 500 bytes in the store."""


class Bench:
    """A node whose template, processes and clock do what a test says; it keeps what the head is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.reactor = Reactor(lambda: self.now)
        self.told: list[Any] = []
        numbers = itertools.count(1)
        self.pool = WorkerPool(lambda: b"worker-%d" % next(numbers))
        self.head = HeadClient(SimpleNamespace(exception=self._failed))  # type: ignore[arg-type]
        self.head.link(self.told.append)
        self.asked: list[ProcessId] = []
        """The workers for which the template was asked."""
        self.callbacks: list[Callable[..., None]] = []
        """Of the last of them: what takes a failed environment, and what takes a failed fork."""
        self.template: Any = SimpleNamespace(failures=0, status=KILLED, started=0, start=self._start_template)
        self.ended: list[tuple[ProcessId, str, bool]] = []
        """The workers that were told to end, why, and whether they may finish their calls."""
        self.statuses: dict[int, int] = {}
        self.removed: list[ProcessId] = []
        self.living: set[int] = set()
        self.killed: list[int] = []
        self.adopted: list[tuple[int, int]] = []
        self.missing = ""
        """Why the session's directory is gone, if it is."""
        self.quotas = StoreQuotas()
        control: Any = SimpleNamespace(end=lambda id, reason, drain: self.ended.append((id, reason, drain)))
        forks: Any = SimpleNamespace(template=self.template, start=self._fork)
        exits: Any = SimpleNamespace(
            note=self.statuses.__setitem__,
            take=lambda pid: self.statuses.pop(pid, None),
            was_killed=lambda pid: self.statuses.get(pid) == KILLED,
            cause=lambda worker, status: worker.cause or f"it ended with status {status}",
            look_for_directory=lambda then: then(self.missing),
            template_log="agent.err",
            template_output=lambda then: then(": no memory"),
            remove_files=lambda worker: self.removed.append(worker.id),
        )
        monkeypatch.setattr(worker_service, "kill", self.killed.append)
        monkeypatch.setattr(worker_service, "is_alive", self.living.__contains__)
        monkeypatch.setattr(worker_service, "end_orphans", lambda gone, living: None)
        monkeypatch.setattr(worker_service, "reap_adopted", lambda spared: [self.adopted.pop()] if self.adopted else [])
        self.service = WorkerService(self.head, self.pool, forks, exits, self.reactor)
        self.leases = WorkerLeases(self.head, self.pool, self.service, control, self.quotas, self.reactor.clock)

    def _failed(self, text: str, **details: Any) -> None:
        raise AssertionError(text) from None

    def _fork(self, step: StartWorker, *callbacks: Callable[..., None]) -> None:
        self.asked.append(step.worker)
        self.callbacks[:] = callbacks

    def _start_template(self) -> None:
        self.template.started += 1

    def head_says(self, kind: int, *fields: Any) -> None:
        self.head.handle((kind, *fields))
        self.pool.validate()

    def grant(self, lease: LeaseId = LEASE) -> None:
        """The head grants a lease here."""
        self.head_says(head_messages.FIND_WORKER, lease, JOB, "", WORK, b"held")

    def worker(self, pid: int) -> WorkerRecord:
        """Fork the worker that was asked for last, as process `pid`, and return it."""
        worker = self.pool.workers[self.asked[-1]]
        self.living.add(pid)
        self.service.on_forked(worker.id, pid)
        return worker

    def joins(self, worker: ProcessId) -> None:
        """A worker that was forked introduces itself."""
        self.leases.worker_joined(SimpleNamespace(info=SimpleNamespace(id=worker), closed=False))  # type: ignore[arg-type]

    def leased(self, pid: int = 10, lease: LeaseId = LEASE) -> WorkerRecord:
        """Return a worker that has joined and serves a lease."""
        self.grant(lease)
        worker = self.worker(pid)
        self.joins(worker.id)
        assert worker.state == LEASED and worker.lease == lease
        self.told.clear()
        return worker

    def closes(self, worker: WorkerRecord, pid: int = 0) -> None:
        """The connection of a worker closes, which runs in the process `pid` if not in that which was forked."""
        self.service.left(Peer(worker.id, "worker", pid or worker.pid, "", {}))

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.reactor.poll(0.0)

    def died(self) -> list[tuple[ProcessId, str]]:
        """Return the deaths that the head was told, and why each one died."""
        number = number_of(head_messages.WorkerDied)
        found = [head_messages.WorkerDied(*message[1:]) for message in self.told if message[0] == number]
        return [(said.worker, said.cause) for said in found]

    def unserved(self) -> list[tuple[LeaseId, int, Exception]]:
        """Return the leases of which the head was told that they get no worker: grants and errors."""
        number = number_of(head_messages.LeaseUnserved)
        found = [head_messages.LeaseUnserved(*message[1:]) for message in self.told if message[0] == number]
        return [(said.lease, said.grant, pickle.loads(said.error)) for said in found]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


# -- leases ------------------------------------------------------------------------------------------------------------


def test_a_lease_gets_a_worker_that_is_forked_for_it(bench: Bench) -> None:
    bench.grant()
    (id,) = bench.asked
    bench.worker(10)
    assert bench.told == [] and bench.pool.held == {LEASE: b"held"}
    bench.now = 5.0
    bench.joins(id)
    assert bench.told == [(head_messages.WORKER_FOUND, LEASE, GRANT, id)]
    worker = bench.pool.workers[id]
    assert worker.work.name == "square" and worker.leased_at == 5.0 and bench.quotas.is_limited(id)


def test_a_worker_whose_lease_is_over_serves_the_next(bench: Bench) -> None:
    worker = bench.leased()
    bench.head_says(head_messages.DROP_WORKER, LEASE, False, True)
    assert worker.state == IDLE and bench.pool.held == {} and bench.ended == []
    bench.grant(OTHER)
    assert bench.told == [(head_messages.WORKER_FOUND, OTHER, GRANT, worker.id)] and len(bench.asked) == 1


@pytest.mark.parametrize(("holder_lives", "reason"), [(True, ""), (False, "its caller ended")])
def test_a_worker_whose_lease_is_broken_ends(bench: Bench, holder_lives: bool, reason: str) -> None:
    worker = bench.leased()
    bench.head_says(head_messages.DROP_WORKER, LEASE, True, holder_lives)
    assert bench.ended == [(worker.id, reason, holder_lives)]


def test_a_worker_that_ends_already_is_not_told_twice(bench: Bench) -> None:
    worker = bench.leased()
    bench.pool.ends(worker.id, "")
    bench.head_says(head_messages.DROP_WORKER, LEASE, True, True)
    assert bench.ended == []


def test_a_lease_that_is_dropped_before_its_worker_is_there_needs_none(bench: Bench) -> None:
    bench.grant()
    bench.head_says(head_messages.DROP_WORKER, LEASE, False, True)
    assert bench.pool.held == {}
    worker = bench.worker(10)
    bench.joins(worker.id)
    assert worker.state == IDLE and bench.told == []


def test_a_worker_that_waits_in_get_says_so(bench: Bench) -> None:
    worker = bench.leased()
    connection: Any = SimpleNamespace(info=worker)
    bench.leases.on_blocked(connection, True)
    assert worker.blocked
    bench.leases.on_blocked(connection, False, True)
    assert worker.asks and not worker.blocked
    blocked = head_messages.LEASE_BLOCKED
    assert bench.told == [(blocked, LEASE, True, False), (blocked, LEASE, False, True)]


# -- workers that do not come up ---------------------------------------------------------------------------------------


def test_an_environment_that_can_not_be_made_refuses_the_lease(bench: Bench) -> None:
    bench.grant()
    failed, _ = bench.callbacks
    failed(bench.asked[-1], RuntimeEnvError("no such package"))
    ((lease, grant, error),) = bench.unserved()
    assert (lease, grant, str(error)) == (LEASE, GRANT, "no such package") and isinstance(error, RuntimeEnvError)
    assert bench.pool.held == {} and bench.pool.workers == {}


def test_another_worker_is_tried_soon_after_a_fork_failed(bench: Bench) -> None:
    bench.grant()
    with capture_logs() as logs:
        bench.callbacks[1](bench.asked[-1], "no descriptors")
    assert [(line["event"], line["reason"]) for line in logs] == [("a worker could not be started", "no descriptors")]
    bench.after(0.4)
    assert len(bench.asked) == 1
    bench.after(0.2)
    assert len(bench.asked) == 2 and bench.died() == [(bench.asked[0], "no descriptors")]


def test_leases_are_refused_after_several_workers_did_not_come_up(bench: Bench) -> None:
    bench.grant()
    for number in range(FAILED_STARTS):
        assert len(bench.asked) == number + 1
        bench.callbacks[1](bench.asked[-1], "no descriptors")
        bench.after(1.0)
    ((lease, grant, error),) = bench.unserved()
    assert (lease, grant) == (LEASE, GRANT) and isinstance(error, WorkerDiedError)
    assert str(error).endswith("; the last: no descriptors")


def test_leases_are_refused_with_the_reason_why_the_session_ends(bench: Bench) -> None:
    bench.grant()
    bench.service.session_ends("its directory was removed")
    for _ in range(FAILED_STARTS):
        bench.callbacks[1](bench.asked[-1], "no descriptors")
        bench.after(1.0)
    ((_, _, error),) = bench.unserved()
    assert isinstance(error, SessionEndedError) and str(error) == "the session ended: its directory was removed"


def test_a_worker_that_exits_before_it_joins_is_gone_at_once(bench: Bench) -> None:
    bench.grant()
    worker = bench.worker(10)
    bench.missing = "the directory of the session is gone"
    bench.service.on_exited(10, KILLED)
    assert bench.died() == [(worker.id, "the directory of the session is gone")]
    bench.service.on_exited(99, KILLED)  # nobody's
    assert len(bench.died()) == 1


def test_a_process_that_is_not_wanted_any_more_is_killed(bench: Bench) -> None:
    bench.service.on_forked(b"unknown-", 30)
    bench.grant()
    bench.pool.ends(bench.asked[-1], "its program ended")
    bench.worker(31)
    assert bench.killed == [30, 31]


# -- their end ---------------------------------------------------------------------------------------------------------


def test_a_worker_that_closes_its_connection_is_reported_with_its_exit_status(bench: Bench) -> None:
    worker = bench.leased()
    bench.closes(worker)
    assert worker.state == ENDING and bench.died() == []
    bench.service.on_exited(10, 256)
    bench.after(0.01)
    assert bench.died() == [(worker.id, "it ended with status 256")]
    assert bench.removed == [worker.id] and bench.pool.held == {} and bench.statuses == {} and bench.killed == []


def test_a_worker_that_closes_its_connection_and_stays_is_killed(bench: Bench) -> None:
    worker = bench.leased()
    bench.closes(worker)
    bench.after(0.9)
    assert bench.killed == [] and bench.died() == []
    bench.after(0.2)
    assert bench.killed == [10] and bench.died() == [(worker.id, "it closed its connection and was ended")]


def test_what_runs_a_worker_elsewhere_has_longer_to_exit(bench: Bench) -> None:
    worker = bench.leased(10)
    bench.closes(worker, pid=99)
    bench.after(9.9)
    assert bench.killed == [] and bench.died() == []
    bench.after(0.2)
    assert bench.killed == [10] and bench.died() == [(worker.id, "it closed its connection and was ended")]


def test_the_death_of_a_worker_is_told_with_its_fault(bench: Bench) -> None:
    worker = bench.leased()
    worker.fault = 3
    bench.closes(worker)
    bench.service.on_exited(10, 256)
    bench.after(0.01)
    cause = "it ended with status 256"
    assert bench.told == [packed(head_messages.WorkerDied(worker=worker.id, pid=10, cause=cause, fault=3))]


# -- templates that die ------------------------------------------------------------------------------------------------


def test_another_template_takes_the_place_of_one_that_died(bench: Bench) -> None:
    bench.grant()
    with capture_logs() as logs:
        bench.service.on_template_lost()
    assert bench.template.started == 1
    assert [line["event"] for line in logs] == ["the template process died; starting another"]
    assert bench.died() == [(bench.asked[0], "the template process died before it was forked")]
    assert len(bench.asked) == 2, "another worker is asked for"


def test_workers_that_were_forked_are_watched_when_their_template_died(bench: Bench) -> None:
    bench.grant()
    worker = bench.worker(10)
    bench.service.on_template_lost()
    bench.after(0.1)
    assert bench.died() == []
    bench.living.clear()
    bench.after(0.1)
    assert bench.died() == [(worker.id, "it died before it had joined, and so did the template")]


def test_the_ends_of_workers_without_a_template_are_collected(bench: Bench) -> None:
    worker = bench.leased()
    bench.closes(worker)
    bench.adopted.append((10, 256))
    bench.service.reap()
    bench.after(0.01)
    assert bench.died() == [(worker.id, "it ended with status 256")]


def test_no_template_is_tried_any_more_after_several_died(bench: Bench) -> None:
    bench.grant()
    bench.template.failures = FAILED_STARTS
    bench.service.on_template_lost()
    ((lease, _, error),) = bench.unserved()
    assert lease == LEASE and isinstance(error, WorkerDiedError) and bench.template.started == 0
    assert str(error).startswith(f"no worker can be started: {FAILED_STARTS} templates (from which workers are forked)")
    assert str(error).endswith("look for the cause at the end of agent.err: no memory")


def test_no_template_is_started_while_the_session_ends(bench: Bench) -> None:
    bench.grant()
    bench.service.session_ends("it was asked to stop")
    bench.service.on_template_lost()
    assert bench.template.started == 0 and bench.told == []
