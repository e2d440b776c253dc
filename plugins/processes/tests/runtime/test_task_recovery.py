"""What becomes of the tasks of workers that died: which run again, which lose a retry, which fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel_engine.messages import process_messages as op
from kernel_processes.runtime.task_recovery import LostTasks, TaskRecovery
from kernel_spec.errors import WorkerDiedError
from kernel_spec.ids import ProcessId

WORKER = ProcessId(b"worker-1")


class Bench:
    """Keeps what is said of tasks: those that retry, that rest, that lose a retry, and what is cleared away of them."""

    def __init__(self, retries: int = 1) -> None:
        self.retries = retries
        self.retried: list[bytes] = []
        self.charged: list[bytes] = []
        self.failed: list[tuple[bytes, Exception]] = []
        self.rested: list[tuple[bytes, str, int]] = []
        self.cleared: list[tuple[Any, str]] = []
        self.forgotten: list[bytes] = []
        table: Any = SimpleNamespace(
            retry_or_fail=self._retry_or_fail,
            ownership=SimpleNamespace(clear_away=lambda entries, place: self.cleared.append((entries, place))),
        )
        rest: Any = SimpleNamespace(recover=lambda task, cause, fault: self.rested.append((task.id, cause, fault)))
        self.recovery = TaskRecovery(table, rest, lambda task: self.retried.append(task.id), self.forgotten.append)

    def _retry_or_fail(self, task: Any, error: Exception, consume: bool) -> bool:
        if consume:
            self.charged.append(task.id)
            if not self.retries:
                self.failed.append((task.id, error))
                return False
        return True

    def lost(self, *tasks: bytes, unsent: tuple[bytes, ...] = ()) -> None:
        made: list[Any] = [
            SimpleNamespace(id=id, name="work", definition=SimpleNamespace(id=b"work"), all_entries=lambda id=id: [id])
            for id in tasks
        ]
        self.recovery.worker_lost(WORKER, LostTasks(made, set(unsent), "here:1"))

    def died(self, fault: int = op.DIED, is_leased: bool = False) -> None:
        self.recovery.worker_died(WORKER, "it was killed", fault, is_leased)


@pytest.mark.parametrize("agent_first", [False, True])
def test_tasks_wait_until_it_is_known_how_their_worker_died(agent_first: bool) -> None:
    bench = Bench()
    if agent_first:
        bench.died(is_leased=True)
        assert bench.retried == []
        bench.lost(b"a", b"b")
    else:
        bench.lost(b"a", b"b")
        assert bench.retried == []
        bench.died()
    assert (bench.retried, bench.charged) == ([b"a", b"b"], [b"a"]), "the second had not begun"
    assert bench.forgotten == [b"work", b"work"]
    assert bench.cleared == [([b"a"], "here:1"), ([b"b"], "here:1")]
    bench.died()
    assert len(bench.retried) == 2, "once"


def test_a_task_without_a_retry_fails_and_says_why() -> None:
    bench = Bench(retries=0)
    bench.lost(b"a", b"b")
    bench.died()
    ((task, error),) = bench.failed
    assert (task, bench.retried) == (b"a", [b"b"]) and isinstance(error, WorkerDiedError)
    assert str(error) == "task work() failed because its worker died: it was killed"


def test_a_task_that_was_not_sent_loses_nothing() -> None:
    bench = Bench()
    bench.lost(b"a", b"b", unsent=(b"a", b"b"))
    bench.died()
    assert (bench.retried, bench.charged, bench.cleared) == ([b"a", b"b"], [], [])


def test_all_may_have_begun_with_a_worker_that_was_only_lost_from_sight() -> None:
    bench = Bench()
    bench.lost(b"a", b"b", b"c", unsent=(b"c",))
    bench.died(op.LOST)
    assert (bench.retried, bench.charged) == ([b"a", b"b", b"c"], [b"a", b"b"])


def test_a_worker_that_was_taken_away_costs_no_retry() -> None:
    bench = Bench(retries=0)
    bench.lost(b"a")
    bench.died(op.TAKEN)
    assert (bench.retried, bench.charged) == ([b"a"], [])


def test_the_task_that_ran_when_memory_ran_out_rests_and_those_behind_it_do_not() -> None:
    bench = Bench()
    bench.lost(b"a", b"b")
    bench.died(op.OUT_OF_MEMORY)
    assert bench.rested == [(b"a", "it was killed", op.OUT_OF_MEMORY)] and bench.retried == [b"b"]


def test_the_death_of_a_worker_that_held_nothing_means_nothing_later() -> None:
    bench = Bench()
    bench.lost()
    bench.died()
    bench.died()
    bench.lost(b"a")
    assert bench.retried == []


def test_a_death_that_was_told_early_is_not_that_of_the_next_worker_of_the_name() -> None:
    bench = Bench()
    bench.died(is_leased=True)
    bench.recovery.worker_is_new(WORKER)
    bench.lost(b"a")
    assert bench.retried == []
