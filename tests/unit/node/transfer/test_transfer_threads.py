"""What the threads of object transfer stand on: work in order of need, and connections that are kept."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from kernel.node.transfer.connections import Connections
from kernel.node.transfer.transfer_threads import TransferThreads
from kernel.transport.reactor import Reactor

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


def poll_until(reactor: Reactor, done: list[object], count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(done) < count:
        assert time.monotonic() < deadline, f"{count} outcomes were expected, there are {done}"
        reactor.poll(0.1)


def test_what_is_urgent_is_done_first_and_outcomes_come_to_the_loop(reactor: Reactor) -> None:
    threads = TransferThreads(reactor, 1, "test")
    go, done = threading.Event(), []
    here = threading.current_thread()

    def note(outcome: str) -> None:
        assert threading.current_thread() is here
        done.append(outcome)

    threads.do(lambda: str(go.wait(SECONDS)), note)
    for name in ("a", "b"):
        threads.do(lambda name=name: name, note)  # type: ignore[misc]
    threads.do(lambda: "urgent", note, urgent=True)
    go.set()
    poll_until(reactor, done, 4)
    assert done == ["True", "urgent", "a", "b"]
    threads.close()


def test_threads_are_few_and_started_when_needed(reactor: Reactor) -> None:
    threads = TransferThreads(reactor, 3, "few")
    done: list[object] = []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("few")]
    barrier = threading.Barrier(3)
    for _ in range(9):
        threads.do(lambda: barrier.wait(SECONDS), done.append)
    poll_until(reactor, done, 9)
    assert len([thread for thread in threading.enumerate() if thread.name.startswith("few")]) == 3
    threads.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("few")]


def test_nothing_comes_back_after_the_end(reactor: Reactor) -> None:
    threads = TransferThreads(reactor, 1, "test")
    begun, go, done = threading.Event(), threading.Event(), []
    threads.do(lambda: (begun.set(), go.wait(SECONDS)), done.append)
    threads.do(lambda: done.append("never"))
    assert begun.wait(SECONDS)
    threading.Timer(0.05, go.set).start()
    threads.close()
    threads.do(lambda: done.append("never"))
    reactor.poll(0.0)
    assert done == []


class Now:
    """A clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_connections_are_kept_for_a_while() -> None:
    now, made = Now(), []

    def connect(address: str) -> socket.socket:
        made.append(socket.socketpair())
        return made[-1][0]

    connections = Connections(connect, 5.0, now)
    assert connections.take("a") is None
    first, second = connections.make("a"), connections.make("a")
    assert first.gettimeout() == 5.0
    connections.give_back("a", first)
    now.now = 10.0
    connections.give_back("a", second)
    assert connections.close_idle(5.0)
    assert first.fileno() == -1 and connections.take("b") is None
    assert connections.take("a") is second
    connections.close()
    connections.give_back("a", second)
    assert second.fileno() == -1
    for _, other in made:
        other.close()


def test_what_is_postponed_is_sent_once() -> None:
    connections = Connections(lambda address: socket.socketpair()[0], 5.0, Now())
    connections.postpone("a", b"one")
    connections.postpone("a", b"two")
    assert connections.postponed("b") == b""
    assert connections.postponed("a") == b"onetwo"
    assert connections.postponed("a") == b""
    connections.postpone("a", b"three")
    connections.forget("a")
    assert connections.postponed("a") == b""
