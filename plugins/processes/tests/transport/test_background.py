"""Work beside a loop: in order, told in the loop, and never waited for by it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kernel_processes.transport.background import Background
from kernel_processes.transport.reactor import Reactor

SECONDS = 120.0


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


def turn_until(reactor: Reactor, predicate: Callable[[], object]) -> None:
    deadline = reactor.clock() + SECONDS
    while not predicate():
        assert reactor.clock() < deadline
        reactor.poll(1.0)


def test_what_came_of_jobs_is_told_in_the_loop_in_order(reactor: Reactor) -> None:
    background = Background(reactor, "test")
    told: list[tuple[object, int]] = []
    threads: set[int] = set()

    def work(number: int) -> int:
        threads.add(threading.get_ident())
        return 10 // number

    for number in (5, 2, 0, 1):
        background.do(lambda n=number: work(n), lambda outcome: told.append((outcome, threading.get_ident())))  # type: ignore[misc]
    turn_until(reactor, lambda: len(told) == 4)
    outcomes = [outcome for outcome, _ in told]
    assert [outcomes[0], outcomes[1], outcomes[3]] == [2, 5, 10]
    assert isinstance(outcomes[2], ZeroDivisionError)
    assert {thread for _, thread in told} == {threading.get_ident()}
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    background.close(SECONDS)


def test_the_loop_goes_on_while_a_job_hangs_and_does_not_wait_for_it_at_the_end(reactor: Reactor) -> None:
    background = Background(reactor, "test")
    begun, go, told, turned = threading.Event(), threading.Event(), [], []

    def hang() -> None:
        begun.set()
        go.wait(SECONDS)

    background.do(hang, told.append)
    background.do(lambda: told.append("the second job was begun"))
    assert begun.wait(SECONDS)
    reactor.call_later(0.0, lambda: turned.append("timer"))
    turn_until(reactor, lambda: turned)
    background.close(0.0)
    go.set()
    background.close(SECONDS)
    reactor.poll(0)
    assert told == [], "nobody is there any more to be told"


def test_without_work_there_is_no_thread(reactor: Reactor) -> None:
    before = threading.active_count()
    background = Background(reactor, "test")
    background.close(SECONDS)
    assert threading.active_count() == before


def test_what_is_urgent_is_done_first_and_outcomes_come_to_the_loop(reactor: Reactor) -> None:
    background = Background(reactor, "test")
    begun, go, done = threading.Event(), threading.Event(), []
    here = threading.current_thread()

    def note(outcome: str) -> None:
        assert threading.current_thread() is here
        done.append(outcome)

    background.do(lambda: str(begun.set() or go.wait(SECONDS)), note)  # type: ignore[func-returns-value]
    assert begun.wait(SECONDS)
    for name in ("a", "b"):
        background.do(lambda name=name: name, note)  # type: ignore[misc]
    background.do(lambda: "urgent", note, urgent=True)
    go.set()
    turn_until(reactor, lambda: len(done) == 4)
    assert done == ["True", "urgent", "a", "b"]
    background.close()


def test_threads_are_few_and_started_when_needed(reactor: Reactor) -> None:
    background = Background(reactor, "few", 3)
    done: list[object] = []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("few")]
    barrier = threading.Barrier(3)
    for _ in range(9):
        background.do(lambda: barrier.wait(SECONDS), done.append)
    turn_until(reactor, lambda: len(done) == 9)
    assert len([thread for thread in threading.enumerate() if thread.name.startswith("few")]) == 3
    background.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("few")]


def test_nothing_comes_back_after_the_end(reactor: Reactor) -> None:
    background = Background(reactor, "test")
    begun, go, done = threading.Event(), threading.Event(), []
    background.do(lambda: (begun.set(), go.wait(SECONDS)), done.append)
    background.do(lambda: done.append("never"))
    assert begun.wait(SECONDS)
    threading.Timer(0.05, go.set).start()
    background.close()
    background.do(lambda: done.append("never"))
    reactor.poll(0.0)
    assert done == []
