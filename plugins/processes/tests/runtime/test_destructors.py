"""Destructors run wherever Python collects garbage, amid the kernel's own work as well: none of them hangs there."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kernel.runtime.waiter import Waiter
from kernel_processes.protocol.identity import Identity
from kernel_processes.runtime.process import Process
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import UsageError

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""
REFUSAL = r"this wait would never end: it was begun in a destructor \(__del__\) or callback that runs amid"


@pytest.fixture
def process(tmp_path: Any) -> Iterator[Process]:
    process = Process(Identity(b"process1", "worker", b"node", b"job", str(tmp_path), b"token"))  # type: ignore[arg-type]
    process.interrupts.install()
    yield process
    process.interrupts.remove()
    process.reactor.close()


class Outbox(list[Any]):
    """Has a destructor run when its messages are taken, as may be wherever something is made."""

    destructor: Callable[[], None] | None = None

    def __getitem__(self, place: Any) -> Any:
        destructor, self.destructor = self.destructor, None
        if destructor is not None:
            destructor()
        return super().__getitem__(place)


@pytest.fixture
def ends(process: Process) -> Iterator[tuple[Connection, list[Any]]]:
    """A connection of the process, and what its other end has heard."""
    received: list[Any] = []
    ours, theirs = socket.socketpair()
    near = Connection(ours, process.reactor, None, lambda *_: None, lambda *_: None)
    far = Connection(theirs, process.reactor, None, lambda _, messages: received.extend(messages), lambda *_: None)
    near.outbox = Outbox()
    yield near, received
    for end in (near, far):
        end.close()


def is_free(process: Process) -> bool:
    """Whether nobody has the seat or the lock."""
    with process.lock:
        return not process.pump._poll_lock.locked() and not process.pump._parked


def test_what_a_destructor_sends_amid_a_flush_goes_out_with_it(
    process: Process, ends: tuple[Connection, list[Any]]
) -> None:
    near, received = ends

    def destructor() -> None:
        process.send(near, (3,))
        process.flush()

    near.outbox.destructor = destructor  # type: ignore[attr-defined]
    process.send(near, (1,))
    process.send(near, (2,))
    process.flush()
    while len(received) < 3:
        process.pump.poll_now()
    assert received == [(1,), (2,), (3,)] and not near.outbox


def test_what_comes_too_late_for_the_flush_is_written_by_the_loop(
    process: Process, ends: tuple[Connection, list[Any]]
) -> None:
    near, received = ends
    with near._flushing:  # amid something that does not look for messages afterwards
        process.send(near, (1,))
        process.flush()
    assert near.outbox == [(1,)]
    process.pump.poll_now()
    process.pump.poll_now()
    assert received == [(1,)]


@pytest.mark.parametrize("seated", [False, True], ids=["send", "get"])
def test_a_wait_for_what_a_flush_is_to_send_is_refused(
    process: Process, ends: tuple[Connection, list[Any]], seated: bool
) -> None:
    near, received = ends
    answer = Waiter()
    refused: list[str] = []

    def destructor() -> None:
        process.send(near, (2,))
        with pytest.raises(UsageError, match=REFUSAL) as raised:
            process.pump.wait(Waiter(), time.monotonic() + SECONDS)
        refused.append(str(raised.value))
        answer.complete()

    near.outbox.destructor = destructor  # type: ignore[attr-defined]
    process.send(near, (1,))
    if seated:
        assert process.pump.wait(answer, time.monotonic() + SECONDS)
    else:
        process.flush()
    assert refused and is_free(process)
    while len(received) < 2:
        process.pump.poll_now()
    assert received == [(1,), (2,)]
    assert not process.pump.wait(Waiter(), time.monotonic()), "waiting elsewhere is as ever"


@pytest.mark.parametrize("where", ["poll", "lock"])
def test_a_wait_amid_what_would_end_it_is_refused(process: Process, where: str) -> None:
    def destructor() -> None:
        with pytest.raises(UsageError, match=REFUSAL):
            process.pump.wait(Waiter(), time.monotonic() + SECONDS)
        ended.complete()

    ended = Waiter()
    if where == "poll":
        process.reactor.call_later(0, destructor)
        assert process.pump.wait(ended, time.monotonic() + SECONDS)
    else:
        with process.lock:
            destructor()
    assert ended.remaining == 0 and is_free(process)


def test_a_wait_in_the_background_thread_is_refused_there(process: Process) -> None:
    raised: list[BaseException] = []
    told = threading.Event()

    def destructor() -> None:
        try:
            process.pump.wait(Waiter())
        except UsageError as error:
            raised.append(error)
        told.set()

    process.pump.start()
    process.reactor.call_later(0, destructor)
    process.reactor.wake()
    assert told.wait(SECONDS) and len(raised) == 1
    process.pump.stop()


def test_who_flushes_in_another_thread_waits_its_turn() -> None:
    reactor = Reactor()
    ours, theirs = socket.socketpair()
    near = Connection(ours, reactor, None, lambda *_: None, lambda *_: None)
    near.outbox = [(1,)]
    with near._flushing:
        other = threading.Thread(target=near.flush)
        other.start()
    other.join(SECONDS)
    assert near.outbox == [] and reactor.flushing_thread == 0
    near.close()
    theirs.close()
    reactor.close()
