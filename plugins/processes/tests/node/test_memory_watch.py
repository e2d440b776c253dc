"""The watch between the policy and the workers, and what becomes of tasks whose worker it ended."""

from __future__ import annotations

import os
import subprocess
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.defaults.memory_guard import LocalMemoryGuard
from kernel_engine.messages import process_messages as op
from kernel_processes.node.guarded_workers import GuardedWorkers
from kernel_processes.node.memory_watch import MemoryWatch
from kernel_processes.node.node_memory import NodeMemory
from kernel_processes.node.worker_pool import ACTOR, IDLE, LEASED, STARTING, LeasedWork, WorkerPool, WorkerRecord
from kernel_processes.protocol.memory_faults import MOST_SECONDS, rest_seconds
from kernel_processes.runtime.memory_retries import MemoryRetries
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import OutOfMemoryError
from kernel_spec.ids import ProcessId
from kernel_spec.memory_guards import MemoryLimit, MemorySettings, WorkerMemory

MIB = 1 << 20


class Readings:
    """Says what a test wants."""

    def __init__(self) -> None:
        self.share = 0.5
        self.kills_so_far = 0
        self.asked: list[list[int]] = []
        self.held: dict[int, int] = {}

    def limits(self) -> list[MemoryLimit]:
        return [MemoryLimit("the test's memory", int(self.share * 1000) * MIB, 1000 * MIB)]

    def kills(self) -> int:
        return self.kills_so_far

    def pressure(self) -> float:
        return 0.25

    def sizes(self, pids: Any) -> dict[int, int]:
        self.asked.append(sorted(pids))
        return {pid: self.held.get(pid, 0) for pid in self.asked[-1]}

    def size(self, pid: int) -> int:
        return 7 * MIB


class Node:
    """Workers without processes, and the watch on their memory, with a control of workers that kills nothing."""

    def __init__(self, memory_limit: int = 0) -> None:
        self.now = 100.0
        self.readings = Readings()
        self.pool = WorkerPool(lambda: os.urandom(8))
        self.retiring: list[int] = []
        self.killed: list[int] = []
        settings = MemorySettings("01" * 4, 0.95, "actors")
        readings: Any = self.readings
        memory = NodeMemory(readings, memory_limit, lambda: 1, lambda: 100 * MIB)
        self.reactor = Reactor(lambda: self.now)
        self.workers = GuardedWorkers(self.pool, self)  # type: ignore[arg-type]
        self.watch = MemoryWatch(settings, LocalMemoryGuard(settings), memory, self.workers, self.reactor)

    def ask_to_retire(self, worker: WorkerRecord) -> None:
        self.retiring.append(worker.pid)

    def kill(self, id: ProcessId, cause: str) -> None:
        ended = self.pool.ends(id, cause)
        assert ended is not None
        self.killed.append(ended.pid)

    def worker(self, pid: int, size: int, state: str = LEASED, memory: int = 0, **details: Any) -> WorkerRecord:
        id = ProcessId(pid.to_bytes(8, "big"))
        worker = WorkerRecord(id, (b"job", ""), state, pid, **details)
        if state in (LEASED, ACTOR):
            worker.work = LeasedWork(f"task{pid}", b"driver", memory, 0, True)
        self.pool.workers[id] = worker
        self.readings.held[pid] = size * MIB
        return worker

    def look(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.watch._look()


@pytest.fixture
def node() -> Node:
    return Node()


def test_memory_is_counted_in_the_session_that_a_worker_runs_in(node: Node) -> None:
    """In a container it is not that of the process that was forked."""
    inside = subprocess.Popen(["sleep", "60"], start_new_session=True)
    here = SimpleNamespace(info=SimpleNamespace(pid=inside.pid))
    gone = SimpleNamespace(info=SimpleNamespace(pid=1 << 30))
    node.worker(10, 0, ACTOR, memory=MIB, peer=here)
    node.worker(11, 5, ACTOR, memory=MIB, peer=gone)
    guard = LocalMemoryGuard(MemorySettings("01" * 4, 0.95, "actors"))
    try:
        assert node.workers.pids() == node.workers.bound_pids(guard) == [inside.pid, 11]
        sizes = {inside.pid: 3 * MIB, 11: 5 * MIB}
        assert [(each.pid, each.size) for each in node.workers.memories(sizes)] == [(10, 3 * MIB), (11, 5 * MIB)]
    finally:
        inside.kill()
        inside.wait()


def test_far_from_the_limit_no_process_is_looked_at(node: Node) -> None:
    node.worker(10, 100)
    node.worker(11, 100, ACTOR)
    node.look()
    assert node.readings.asked == []


def test_only_those_whose_quota_is_a_limit_are_looked_at(node: Node) -> None:
    node.worker(10, 100, memory=MIB)
    node.worker(11, 100, ACTOR, memory=MIB)
    node.look()
    assert node.readings.asked == [[11]]


def test_who_is_chosen_is_killed_and_its_record_says_why(node: Node) -> None:
    node.worker(9, 10, STARTING)
    small, hog = node.worker(10, 100), node.worker(11, 400)
    node.readings.share = 0.99
    node.look()
    assert node.killed == [11]
    assert (hog.state, hog.fault, small.fault) == ("ending", op.OUT_OF_MEMORY, op.DIED)
    assert "990.0 MiB of 1000.0 MiB (the test's memory) were in use, 99.0%" in hog.cause
    assert "worker leased for task11() (pid 11) 400.0 MiB, worker leased for task10() (pid 10) 100.0 MiB" in hog.cause
    status = node.watch.status()
    assert status["ended"] == 1 and status["pressure"] == 0.25
    (end,) = status["ends"]
    assert (end["pid"], end["name"]) == (11, "worker leased for task11()")
    assert (end["fault"], end["cause"]) == ("out of memory", hog.cause)


def test_the_status_names_the_guard_and_its_settings(node: Node) -> None:
    status = node.watch.status()
    assert (status["guard"], status["threshold"], status["quotas"]) == (LocalMemoryGuard.name, 0.95, "actors")
    assert status["limits"] == [("the test's memory", 500 * MIB, 1000 * MIB)]
    assert (status["ended"], status["ends"]) == (0, [])


def test_the_guard_is_told_what_each_worker_is_for_and_whether_it_can_be_repeated(node: Node) -> None:
    node.worker(9, 10, STARTING)
    node.worker(10, 100, memory=MIB, leased_at=7.0)
    node.worker(11, 100, ACTOR, actor="Keeper", restarts=0)
    node.worker(12, 100, ACTOR, actor="Phoenix", restarts=-1)
    node.worker(13, 100, IDLE)
    task, keeper, phoenix, idle = node.workers.memories({10: 5})
    assert task == WorkerMemory(
        ProcessId((10).to_bytes(8, "big")), 10, "worker leased for task10()", "task", 5, True, b"driver", 7.0, MIB
    )
    assert (keeper.name, keeper.kind, keeper.size, keeper.again) == ("Keeper", "actor", 0, False)
    assert (phoenix.again, idle.kind, idle.name) == (True, "idle", "")


def test_idle_workers_are_asked_to_go(node: Node) -> None:
    idle = node.worker(10, 400, IDLE)
    node.readings.share = 0.96
    node.look()
    assert (node.retiring, node.killed, idle.retiring) == ([10], [], True)


def test_the_nodes_own_limit_counts_workers_agent_template_and_store() -> None:
    node = Node(memory_limit=1000 * MIB)
    node.worker(10, 300)
    node.look()
    assert node.watch.status()["limits"][1] == ("this node's memory_limit", (300 + 100 + 7 + 7) * MIB, 1000 * MIB)


def test_a_look_that_fails_is_not_the_last(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[MemoryLimit]:
        raise OSError("no such thing")

    monkeypatch.setattr(node.readings, "limits", fail)
    with pytest.raises(OSError):
        node.watch.start()
    monkeypatch.undo()
    node.readings.asked.clear()
    node.worker(11, 100, ACTOR, memory=MIB)
    node.now += 2
    node.reactor.poll(0)
    assert node.readings.asked == [[11]]


def test_a_kill_by_the_machine_is_told_as_such_once(node: Node) -> None:
    node.look()
    worker = node.worker(10, 100)
    assert node.watch.note_kill(worker) == ""
    node.readings.kills_so_far = 1
    text = node.watch.note_kill(worker)
    assert text == (
        "the machine itself killed it (SIGKILL) because memory ran out faster than this node noticed; 500.0 MiB of "
        "1000.0 MiB (the test's memory) were in use at the last look (pid 10, node 01010101)"
    )
    assert worker.fault == op.OUT_OF_MEMORY
    assert node.watch.note_kill(worker) == ""


def test_a_kill_is_remembered_until_the_death_of_the_worker_is_known(node: Node) -> None:
    node.readings.kills_so_far = 1
    node.look()
    node.look(4.0)
    assert "the machine itself killed it (SIGKILL)" in node.watch.note_kill(node.worker(10, 100))
    assert node.watch.status()["ended"] == 1


def test_a_kill_of_somebody_else_is_forgotten(node: Node) -> None:
    node.readings.kills_so_far = 1
    node.look()
    node.look(4.0)
    node.look(2.0)
    assert node.watch.note_kill(node.worker(10, 100)) == ""


# -- tasks ---------------------------------------------------------------------------------------------------------


def test_each_rest_is_twice_as_long_up_to_a_minute() -> None:
    assert [rest_seconds(attempt) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 8.0]
    assert rest_seconds(7) == rest_seconds(10_000) == MOST_SECONDS


class Hog:
    """A task."""

    name = "hog"
    attempt = 0
    cancelled = False

    def __init__(self, retries: int) -> None:
        self.retries = retries


class Owner:
    """A process with one task, and what became of that."""

    def __init__(self, retries: int) -> None:
        self.now = 0.0
        self.failed: list[Exception] = []
        self.ran: list[Any] = []
        self.task = Hog(retries)
        self.reactor = Reactor(lambda: self.now)
        self.process: Any = SimpleNamespace(
            reactor=self.reactor, lock=threading.RLock(), closing=False, ended=None, flush=lambda: None
        )
        self.retries = MemoryRetries(self.process, self, self.ran.append)  # type: ignore[arg-type]

    def retry_or_fail(self, task: Any, error: Exception, consume: bool) -> bool:
        if consume and task.retries == 0:
            self.failed.append(error)
            return False
        if consume:
            task.retries -= task.retries > 0
            task.attempt += 1
        return True

    def recover(self, fault: int) -> None:
        self.retries.recover(self.task, "memory ran out", fault)  # type: ignore[arg-type]

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.reactor.poll(0)


def test_who_was_crowded_out_rests_ever_longer_and_loses_no_retry() -> None:
    owner = Owner(retries=1)
    for seconds in (1.0, 2.0, 4.0):
        owner.ran.clear()
        owner.recover(op.CROWDED_OUT)
        assert owner.retries.explain(owner.task) == (
            f"hog() was ended because memory ran out, and is run again in {seconds:.0f} s"
        )
        owner.later(seconds - 0.1)
        assert owner.ran == []
        owner.later(0.2)
        assert owner.ran == [owner.task]
    assert owner.task.retries == 1 and not owner.failed
    assert owner.retries.explain(owner.task) == ""


@pytest.mark.parametrize(
    ("fault", "retries", "attempt", "ending"),
    [
        (op.CROWDED_OUT, 0, 0, "It may not be run again (max_retries=0). Have fewer of them run at once"),
        (op.OUT_OF_MEMORY, 0, 2, "It was run 3 times and has no retries left (max_retries). Have it hold less at a"),
        (op.OVER_QUOTA, 5, 0, "It is not run again, because it would need as much. Raise its memory=, or have it"),
    ],
)
def test_who_is_not_run_again_fails_with_the_reason(fault: int, retries: int, attempt: int, ending: str) -> None:
    owner = Owner(retries)
    owner.task.attempt = attempt
    owner.recover(fault)
    (error,) = owner.failed
    assert type(error) is OutOfMemoryError
    assert str(error).startswith(f"task hog() was ended: memory ran out. {ending}")


@pytest.mark.parametrize("change", ["cancelled", "closing", "ended"])
def test_who_is_not_wanted_any_more_is_not_run_again(change: str) -> None:
    owner = Owner(retries=3)
    owner.recover(op.OUT_OF_MEMORY)
    setattr(owner.task if change == "cancelled" else owner.process, change, True)
    owner.later(5)
    assert owner.ran == []
