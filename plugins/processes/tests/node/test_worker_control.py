"""What workers are told: to become an actor, to retire, to end; and what becomes of those that do not."""

from __future__ import annotations

import os
from typing import Any

import pytest

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.node import worker_control
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.worker_control import GRACE_SECONDS, WorkerControl
from kernel_processes.node.worker_pool import (
    ACTOR,
    ENDING,
    IDLE,
    LEASED,
    STARTING,
    StartWorker,
    WorkerPool,
    WorkerRecord,
)
from kernel_processes.protocol import head_messages
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import JobId, LeaseId, ProcessId


class Peer:
    """A worker's connection, which keeps what is said over it."""

    closed = False

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.flushed = 0

    def send(self, message: Any) -> None:
        self.told.append(message)

    def flush(self) -> None:
        self.flushed = len(self.told)


class Stage:
    """A pool of workers that are never forked, and a clock of the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.reactor = Reactor(lambda: self.now)
        self.pool = WorkerPool(lambda: os.urandom(8))
        self.head = HeadClient(None)  # type: ignore[arg-type]
        self.told: list[tuple[ProcessId, Any]] = []
        self.answers: list[Any] = []
        """What takes the answer of each worker that was asked whether it may go."""
        self.killed: list[int] = []
        monkeypatch.setattr(worker_control, "kill", self.killed.append)
        self.control = WorkerControl(self.head, self.pool, self, self.reactor)  # type: ignore[arg-type]

    def send(self, process: ProcessId, message: Any) -> None:
        self.told.append((process, message))

    def ask(self, connection: Any, method: str, then: Any) -> None:
        assert method == "retire"
        self.answers.append(then)

    def worker(self, pid: int, state: str = LEASED, job: bytes = b"job", joined: bool = True) -> WorkerRecord:
        steps = self.pool.want(LeaseId(b"lease %d" % pid), (JobId(job), ""), 0.0)
        (id,) = [step.worker for step in steps if isinstance(step, StartWorker)]
        worker, peer = self.pool.workers[id], Peer()
        worker.pid = pid
        if joined:
            self.pool.registered(id, peer, 0.0)  # type: ignore[arg-type]
        if state == IDLE:
            self.pool.released(id, 0.0)
        elif state == ENDING:
            self.pool.ends(id, "")
        assert worker.state == state
        return worker

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.reactor.poll(0.0)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def told(worker: WorkerRecord) -> list[Any]:
    peer: Any = worker.peer
    assert peer.flushed == len(peer.told)
    return list(peer.told)


def test_one_that_does_not_end_is_killed_after_a_grace(stage: Stage) -> None:
    worker = stage.worker(10)
    stage.control.end(worker.id, "its caller ended", drain=False)
    assert told(worker) == [packed(op.EndProcess(reason="its caller ended", drain=False, kindly=True))]
    assert worker.state == ENDING and worker.cause == "its caller ended"
    stage.after(GRACE_SECONDS / 2)
    assert stage.killed == []
    stage.after(GRACE_SECONDS)
    assert stage.killed == [10]


def test_one_that_is_gone_by_then_is_not_killed(stage: Stage) -> None:
    worker = stage.worker(10)
    stage.control.end(worker.id, "", drain=False)
    del stage.pool.workers[worker.id]
    stage.after(2 * GRACE_SECONDS)
    stage.control.end(worker.id, "", drain=False)
    assert stage.killed == []


def test_one_that_may_finish_its_calls_has_all_the_time_it_needs(stage: Stage) -> None:
    worker = stage.worker(10)
    stage.head.handle(packed(head_messages.StopWorker(worker=worker.id, reason="", drain=True, kindly=False)))
    assert told(worker) == [packed(op.EndProcess(reason="", drain=True, kindly=False))]
    stage.after(100 * GRACE_SECONDS)
    assert stage.killed == []


def test_one_that_has_not_joined_can_only_be_killed(stage: Stage) -> None:
    stage.control.end(stage.worker(10, STARTING, joined=False).id, "", drain=True)
    assert stage.killed == [10]


def test_what_a_process_asks_to_kill_is_killed_at_once(stage: Stage) -> None:
    worker = stage.worker(10)
    for id in (worker.id, ProcessId(b"unknown-")):
        stage.head.handle(packed(head_messages.KillWorker(worker=id, reason="kernel.cancel(force=True)")))
    assert stage.killed == [10] and worker.cause == "kernel.cancel(force=True)"


def test_with_a_job_its_workers_end_and_no_others(stage: Stage) -> None:
    mine, other = stage.worker(10), stage.worker(11, job=b"another job")
    stage.control.end_all_of(JobId(b"job"), "its program ended")
    assert (mine.state, other.state) == (ENDING, LEASED) and mine.cause == "its program ended"


def test_an_idle_one_retires_if_nobody_needs_what_it_owns(stage: Stage) -> None:
    goes, stays = stage.worker(10, IDLE), stage.worker(11, IDLE, job=b"another job")
    for worker in (goes, stays):
        stage.control.ask_to_retire(worker)
    stage.answers[0](True)
    stage.answers[1](False)
    assert (goes.state, stays.state) == (ENDING, IDLE) and goes.cause == "it had nothing to do"
    stage.after(2 * GRACE_SECONDS)
    assert stage.killed == [10]


@pytest.mark.parametrize("obstacle", ["", "not joined", "ending", "an actor", "unknown"])
def test_a_leased_one_becomes_an_actor_once(stage: Stage, obstacle: str) -> None:
    state = {"ending": ENDING, "not joined": STARTING}.get(obstacle, LEASED)
    worker = stage.worker(10, state, joined=obstacle != "not joined")
    worker.actor = "Counter" if obstacle == "an actor" else ""
    id = ProcessId(b"unknown-") if obstacle == "unknown" else worker.id
    message = (op.CALL, 1)
    said = head_messages.ConstructActor(worker=id, class_name="Counter", restarts=2, message=message)
    stage.head.handle(packed(said))
    assert stage.told == ([] if obstacle else [(worker.id, message)])
    if not obstacle:
        assert (worker.state, worker.actor, worker.restarts) == (ACTOR, "Counter", 2)


def test_idle_workers_that_are_too_many_are_asked_to_retire(stage: Stage) -> None:
    old, young = stage.worker(10), stage.worker(11)
    for worker, now in ((old, 0.0), (young, 1.0)):
        stage.pool.released(worker.id, now)
    stage.now = 10.0
    stage.control.retire_idle(keep=1, after=8.0)
    assert old.retiring and not young.retiring and len(stage.answers) == 1
    stage.answers.pop()(True)
    assert (old.state, young.state) == (ENDING, IDLE)
