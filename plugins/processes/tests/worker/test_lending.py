"""The CPU of a worker whose call waits: when it is lent, and for what the call then waits."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from kernel.logs import Logger
from kernel.runtime.waiter import Waiter
from kernel_engine.messages import process_messages as op
from kernel_processes.worker.lending import CPU_SECONDS, CpuLending


class Pump:
    """Lets `during(waiter)` happen in each wait, and notes how long that might have lasted."""

    def __init__(self) -> None:
        self.waits: list[float | None] = []
        self.during = lambda waiter: None

    def wait(self, waiter: Waiter, deadline: float | None = None) -> bool:
        self.waits.append(deadline)
        self.during(waiter)
        return waiter.remaining <= 0


class Process:
    ended = None

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.handlers: dict[int, Any] = {}
        self.pump = Pump()
        self.log = Logger("test")
        self.told: list[tuple[Any, ...]] = []

    def tell_agent(self, message: tuple[Any, ...]) -> None:
        self.told.append(message)


class Executor:
    refuses_tasks = worn_out = False
    is_running = True

    def in_call(self) -> bool:
        return True

    def give_back(self) -> None:
        """Nothing is queued."""


class Worker:
    """One that runs a task; `idle` says whether it has leased a worker that is idle."""

    def __init__(self) -> None:
        self.process, self.executor = Process(), Executor()
        self.idle = self.actor = False
        self.lending = CpuLending(
            self.process,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            self.executor,  # type: ignore[arg-type]
            lambda: self.actor,
            lambda: self.idle,
        )

    def deliver(self, operation: int) -> None:
        self.process.handlers[operation](None, (operation,))


def test_a_call_whose_cpu_nobody_uses_goes_on_at_once() -> None:
    worker = Worker()
    assert worker.lending.before_block()
    worker.lending.after_block()
    assert worker.process.told == [(op.BLOCKED,), (op.UNBLOCKED, False)]
    assert worker.process.pump.waits == []


@pytest.mark.parametrize("why", ["actor", "idle"])
def test_neither_an_actor_nor_who_holds_an_idle_worker_asks(why: str) -> None:
    worker = Worker()
    setattr(worker, why, True)
    worker.lending.before_block()
    worker.deliver(op.CPU_TAKEN)
    worker.lending.after_block()
    assert worker.process.told[-1] == (op.UNBLOCKED, False)
    assert worker.process.pump.waits == []


def test_a_call_whose_cpu_is_used_waits_until_it_hears_that_it_may_go_on() -> None:
    worker = Worker()
    worker.process.pump.during = lambda waiter: worker.deliver(op.GO_ON)
    worker.lending.before_block()
    worker.deliver(op.CPU_TAKEN)
    worker.lending.after_block()
    assert worker.process.told == [(op.BLOCKED,), (op.UNBLOCKED, True)]
    assert len(worker.process.pump.waits) == 1


def test_it_does_not_wait_beyond_the_deadline_of_what_it_waited_for() -> None:
    worker = Worker()
    worker.lending.before_block()
    worker.deliver(op.CPU_TAKEN)
    worker.lending.after_block(0.0)
    assert worker.process.told == [(op.BLOCKED,), (op.UNBLOCKED, False)]
    assert worker.process.pump.waits == []


def test_it_goes_on_without_its_cpu_in_the_end_and_then_waits_no_more_until_its_next_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker()
    for _ in range(2):
        worker.lending.before_block()
        worker.deliver(op.CPU_TAKEN)
        worker.lending.after_block()
    asked, not_asked = (op.UNBLOCKED, True), (op.UNBLOCKED, False)
    assert worker.process.told == [(op.BLOCKED,), asked, not_asked, (op.BLOCKED,), not_asked]
    assert len(worker.process.pump.waits) == 1
    worker.lending.leased()
    worker.lending.before_block()
    worker.deliver(op.CPU_TAKEN)
    worker.lending.after_block()
    assert len(worker.process.pump.waits) == 2
    assert CPU_SECONDS > 0


def test_one_that_is_interrupted_while_it_waits_for_its_cpu_counts_as_running() -> None:
    worker = Worker()

    def interrupt(waiter: Waiter) -> None:
        raise KeyboardInterrupt

    worker.process.pump.during = interrupt
    worker.lending.before_block()
    worker.deliver(op.CPU_TAKEN)
    with suppress(KeyboardInterrupt):
        worker.lending.after_block()
    assert worker.process.told[-2:] == [(op.UNBLOCKED, True), (op.UNBLOCKED, False)]


def test_while_one_thread_takes_the_cpu_back_another_does_not_lend_it() -> None:
    worker = Worker()
    lent: list[bool] = []
    worker.process.pump.during = lambda waiter: lent.append(worker.lending.before_block())
    worker.lending.before_block()
    worker.deliver(op.CPU_TAKEN)
    worker.lending.after_block()
    assert lent == [False]


def test_it_asks_until_it_was_told_once_to_go_on_or_has_another_lease() -> None:
    worker = Worker()
    worker.process.pump.during = lambda waiter: worker.deliver(op.GO_ON)
    worker.deliver(op.CPU_TAKEN)
    for asks in (True, False):
        worker.lending.before_block()
        worker.lending.after_block()
        assert worker.process.told[-1] == (op.UNBLOCKED, asks)
    worker.deliver(op.CPU_TAKEN)
    worker.lending.leased()
    worker.lending.before_block()
    worker.lending.after_block()
    assert worker.process.told[-1] == (op.UNBLOCKED, False)
