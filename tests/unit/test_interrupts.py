"""Interrupts strike where nothing is left half done: user code and waits, not the bookkeeping between them."""

from __future__ import annotations

import marshal
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime import waiting
from kernel.runtime.identity import Identity
from kernel.runtime.process import Process
from kernel.runtime.waiting import Waiter
from kernel.testing.faults import wait_until
from kernel.transport.connection import Connection


def run(work: Callable[[], Any]) -> None:
    """What an executor is to the interrupts: it calls the user's code."""
    work()


RUNNER = frozenset((run.__code__,))
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


@pytest.fixture
def process(tmp_path: Any) -> Iterator[Process]:
    process = Process(Identity(b"process1", "worker", b"node", b"job", str(tmp_path), b"token"))  # type: ignore[arg-type]
    yield process
    process.reactor.close()


class Call(threading.Thread):
    """A call that runs in a thread of its own."""

    def __init__(self, process: Process, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.work = work
        self.begun = threading.Event()
        self.raised: list[BaseException] = []
        self.start()
        assert self.begun.wait(SECONDS)

    def run(self) -> None:
        try:
            run(self._work)
        except BaseException as error:
            self.raised.append(error)
        finally:
            self.process.pump.interrupts.pop(threading.get_ident(), None)

    def _work(self) -> None:
        self.begun.set()
        self.work()

    def interrupt(self) -> None:
        with self.process.lock:
            assert self.ident is not None
            self.process.interrupts.interrupt_call(self.ident, self.is_alive, RUNNER)

    def was_interrupted(self) -> bool:
        return [type(error) for error in self.raised] == [KeyboardInterrupt]


def poll_until(process: Process, condition: Callable[[], bool]) -> None:
    """Be the thread that polls."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        process.pump.wait(Waiter(), time.monotonic() + 0.01)


def assert_in_order(process: Process) -> None:
    """Nobody has the seat or the lock for ever, and nobody is thought to wait."""
    assert not process.pump._seat.locked()
    assert not process.pump._parked
    assert not process.pump.interrupts
    assert process.lock.acquire(blocking=False)
    process.lock.release()


def spin() -> None:
    while True:
        sum(range(100))


def test_a_thread_in_user_code_is_interrupted(process: Process) -> None:
    call = Call(process, spin)
    call.interrupt()
    poll_until(process, lambda: not call.is_alive())
    assert call.was_interrupted()
    assert_in_order(process)


def test_a_thread_that_is_parked_is_interrupted(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "sleep", lambda signal, seconds: signal.acquire())  # only a poke ends it
    ended = Waiter()
    calls: list[Call] = []

    def begin() -> None:  # while this thread has the seat
        calls.append(Call(process, lambda: process.pump.wait(Waiter())))
        interrupt_parked()

    def interrupt_parked() -> None:
        if process.pump._parked:
            calls[0].interrupt()
            look()
        else:
            process.reactor.call_later(0.001, interrupt_parked)

    def look() -> None:
        if calls[0].is_alive():
            process.reactor.call_later(0.001, look)
        else:
            ended.complete()

    process.reactor.call_later(0, begin)
    assert process.pump.wait(ended, time.monotonic() + SECONDS)
    assert calls[0].was_interrupted()
    assert_in_order(process)


def test_a_thread_that_polls_and_reads_of_its_own_end_is_interrupted(process: Process) -> None:
    call = Call(process, lambda: process.pump.wait(Waiter()))
    process.reactor.call_later(0, call.interrupt)
    process.reactor.wake()
    call.join(SECONDS)
    assert call.was_interrupted()
    assert_in_order(process)


def test_a_thread_amid_the_kernels_own_code_is_left_alone_until_it_is_back(process: Process) -> None:
    amid = threading.Event()

    class Dirty(set[Any]):
        """Is asked in the middle of a flush."""

        def __bool__(self) -> bool:
            amid.set()
            release.acquire()
            for _ in range(1000):
                sum(range(10))
            return False

    release = threading.Lock()
    release.acquire()
    process._dirty = Dirty()
    flushed = []

    def work() -> None:
        process.flush()
        flushed.append(True)
        spin()

    call = Call(process, work)
    assert amid.wait(SECONDS)
    call.interrupt()
    process._dirty = set()
    release.release()
    poll_until(process, lambda: not call.is_alive())
    assert call.was_interrupted()
    assert flushed == [True]
    assert_in_order(process)


def test_a_call_that_has_just_ended_leaves_nothing_for_the_next(process: Process) -> None:
    with process.lock:
        process.interrupts.interrupt_call(threading.get_native_id(), lambda: False, RUNNER)
    assert_in_order(process)


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def with_ctrl_c(process: Process) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process.interrupts.install()
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def connection(process: Process) -> Iterator[tuple[Connection, list[Any]]]:
    """A connection, and what arrives at its other end."""
    left, right = socket.socketpair()
    heard: list[Any] = []
    sender = Connection(left, process.reactor, None, lambda c, m: None, lambda c, r: None)
    receiver = Connection(right, process.reactor, None, lambda c, m: heard.extend(m), lambda c, r: None)
    yield sender, heard
    sender.close()
    receiver.close()


@pytest.mark.usefixtures("with_ctrl_c")
def test_ctrl_c_amid_a_flush_loses_no_message(
    process: Process, connection: tuple[Connection, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, heard = connection

    def dumps(value: Any) -> bytes:
        signal.raise_signal(signal.SIGINT)
        return marshal.dumps(value)

    process.send(sender, (1, "here"))
    monkeypatch.setattr("kernel.transport.connection.marshal", SimpleNamespace(dumps=dumps, loads=marshal.loads))
    process.flush()
    with pytest.raises(KeyboardInterrupt):
        process.pump.poll_now()
    process.pump.poll_now()
    assert heard == [(1, "here")]
    assert_in_order(process)


@pytest.mark.usefixtures("with_ctrl_c")
def test_ctrl_c_amid_sending_leaves_no_message_behind(
    process: Process, connection: tuple[Connection, list[Any]]
) -> None:
    sender, heard = connection

    class Outbox(list[Any]):
        def append(self, message: Any) -> None:
            super().append(message)
            signal.raise_signal(signal.SIGINT)

    sender.outbox = Outbox()
    process.send(sender, (1, "here"))
    with pytest.raises(KeyboardInterrupt):
        process.raise_interrupt()
    process.flush()
    process.pump.poll_now()
    assert heard == [(1, "here")]


@pytest.mark.usefixtures("with_ctrl_c")
def test_ctrl_c_is_kept_while_the_lock_is_held(process: Process) -> None:
    with process.lock:
        signal.raise_signal(signal.SIGINT)
        process.raise_interrupt()
    with pytest.raises(KeyboardInterrupt):
        process.raise_interrupt()
    process.raise_interrupt()


@pytest.mark.usefixtures("with_ctrl_c")
def test_ctrl_c_in_a_destructor_is_not_swallowed(process: Process) -> None:
    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    Dropped()
    with pytest.raises(KeyboardInterrupt):
        process.pump.poll_now()
    assert_in_order(process)


@pytest.mark.usefixtures("with_ctrl_c")
def test_ctrl_c_that_was_kept_strikes_a_program_that_does_not_wait(process: Process) -> None:
    process.pump.start()
    deadline = time.monotonic() + SECONDS
    with pytest.raises(KeyboardInterrupt):
        with process.lock:
            signal.raise_signal(signal.SIGINT)
        while time.monotonic() < deadline:
            sum(range(1000))
    process.pump.stop()


@pytest.mark.usefixtures("with_ctrl_c")
def test_ctrl_c_ends_a_wait(process: Process) -> None:
    def strike() -> None:
        wait_until(process.pump._seat.locked, SECONDS, "the wait")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    striking = threading.Thread(target=strike)
    striking.start()
    with pytest.raises(KeyboardInterrupt):
        process.pump.wait(Waiter(), time.monotonic() + SECONDS)
    striking.join()
    assert_in_order(process)
