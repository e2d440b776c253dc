"""When threads join in on the calls of an actor: at once, after a moment, or not at all."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_processes.system.starting import NO_ROOM
from kernel_processes.transport.reactor import Reactor
from kernel_processes.worker import call_group
from kernel_processes.worker.call_group import CallGroup

SECONDS = 120.0


class Bench:
    """A group whose calls block until a test lets them go on."""

    def __init__(self, limit: int, with_main: bool = False) -> None:
        self.now = 0.0
        self.flushes = 0
        self.errors: list[str] = []
        self.begun: list[Any] = []
        self.ended = False
        self.go_on = threading.Semaphore(0)
        io: Any = SimpleNamespace(
            reactor=Reactor(lambda: self.now),
            pump=SimpleNamespace(flush_soon=self._flush_soon),
            log=SimpleNamespace(error=self.errors.append),
        )
        self.reactor = io.reactor
        self.group = CallGroup("io", limit, with_main, io, self._drain, lambda: self.ended)

    def _flush_soon(self) -> None:
        self.flushes += 1

    def _drain(self, group: CallGroup) -> None:
        while True:
            try:
                call = group.queue.popleft()
            except IndexError:
                return
            self.begun.append(call)
            assert self.go_on.acquire(timeout=SECONDS)
            group.finished += 1

    def enqueue(self, *calls: Any) -> None:
        for call in calls:
            self.group.queue.append(call)
            self.group.watch()

    def after_a_moment(self) -> None:
        self.now += 0.002
        self.reactor.poll(0.0)

    def until_begun(self, count: int) -> None:
        deadline = time.monotonic() + SECONDS
        while len(self.begun) < count:
            assert time.monotonic() < deadline, f"{self.begun} have begun"
            time.sleep(0.001)

    def end(self) -> None:
        self.ended = True
        for _ in range(10):
            self.go_on.release()
        self.group.wake()
        self.group.join(time.monotonic() + SECONDS)
        assert not any(thread.is_alive() for thread in self.group._threads)
        self.reactor.close()


def test_calls_that_are_quick_never_get_a_thread() -> None:
    bench = Bench(limit=3, with_main=True)
    bench.enqueue("a")
    bench.group.queue.clear()  # the main thread has run it
    bench.group.finished += 1
    bench.after_a_moment()
    assert bench.group._threads == [] and bench.flushes == 1
    bench.end()


def test_a_call_that_is_stuck_behind_another_gets_a_thread() -> None:
    bench = Bench(limit=3, with_main=True)
    bench.enqueue("a")
    bench.after_a_moment()
    bench.until_begun(1)
    assert bench.begun == ["a"] and len(bench.group._threads) == 1
    bench.end()


def test_calls_that_go_on_are_looked_at_again() -> None:
    bench = Bench(limit=3, with_main=True)
    bench.enqueue("a", "b")
    bench.group.finished += 1
    bench.after_a_moment()
    assert bench.group._threads == [], "one has finished meanwhile"
    bench.after_a_moment()
    bench.until_begun(1)
    bench.end()


def test_the_main_thread_counts_where_it_takes_part() -> None:
    bench = Bench(limit=1, with_main=True)
    bench.enqueue("a")
    bench.after_a_moment()
    assert bench.group._threads == [] and list(bench.group.queue) == ["a"]
    bench.end()


def test_a_group_of_its_own_begins_at_once_and_has_no_more_threads_than_it_may() -> None:
    bench = Bench(limit=2)
    bench.enqueue("a")
    bench.until_begun(1)
    bench.enqueue("b")
    bench.until_begun(2)
    bench.enqueue("c")
    bench.after_a_moment()
    assert len(bench.group._threads) == 2 and list(bench.group.queue) == ["c"]
    bench.go_on.release()
    bench.until_begun(3)
    bench.end()


def test_an_idle_thread_takes_the_next_call() -> None:
    bench = Bench(limit=2)
    bench.enqueue("a")
    bench.until_begun(1)
    bench.go_on.release()
    deadline = time.monotonic() + SECONDS
    while bench.group._idle_helpers == 0:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    bench.enqueue("b")
    bench.until_begun(2)
    assert len(bench.group._threads) == 1
    bench.end()


def test_a_call_waits_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(limit=2)
    with monkeypatch.context() as patch:
        patch.setattr(call_group, "begin_thread", lambda run, name: None)
        bench.enqueue("a")
    assert bench.errors == [f"no thread can be started for a call: {NO_ROOM}"] and bench.begun == []
    bench.after_a_moment()
    bench.until_begun(1)
    bench.end()
