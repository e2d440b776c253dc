"""Signal handlers are called where they may raise and use the session, and the program does not notice how."""

from __future__ import annotations

import _thread
import asyncio
import gc
import importlib
import marshal
import os
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.critical_sections import take_in
from kernel.runtime.waiter import Waiter
from kernel.testing.faults import wait_until
from kernel_processes.protocol.identity import Identity
from kernel_processes.runtime.process import Process
from kernel_processes.transport.connection import Connection

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


class Deadline(Exception):
    """What handlers raise."""


@pytest.fixture
def process(tmp_path: Any) -> Iterator[Process]:
    """A process that defers signals. SIGINT is Python's own, SIGUSR1 and SIGALRM raise Deadline."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGALRM)}
    process = Process(Identity(b"process1", "worker", b"node", b"job", str(tmp_path), b"token"))  # type: ignore[arg-type]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGUSR1, raise_deadline)  # before
    process.interrupts.install()
    signal.signal(signal.SIGALRM, raise_deadline)  # after
    yield process
    process.interrupts.remove()
    process.reactor.close()
    for number, handler in before.items():
        signal.signal(number, handler)


def raise_deadline(number: int, frame: Any) -> None:
    raise Deadline


def step() -> None:
    """Do nothing, where Python looks for signals."""


def assert_in_order(process: Process) -> None:
    """Nobody has the seat or the lock for ever, and nobody is thought to wait."""
    assert not process.pump._poll_lock.locked()
    assert not process.pump._parked
    assert not process.pump.interrupts
    assert process.lock.acquire(blocking=False)
    process.lock.release()


RAISES = pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGUSR1, Deadline), (signal.SIGALRM, Deadline)],
    ids=["SIGINT", "SIGUSR1", "SIGALRM"],
)


@pytest.fixture
def connection(process: Process) -> Iterator[tuple[Connection, list[Any]]]:
    """A connection, and what arrives at its other end."""
    left, right = socket.socketpair()
    received: list[Any] = []
    sender = Connection(left, process.reactor, None, lambda c, m: None, lambda c, r: None)
    receiver = Connection(right, process.reactor, None, lambda c, m: received.extend(m), lambda c, r: None)
    yield sender, received
    sender.close()
    receiver.close()


@RAISES
def test_a_signal_amid_a_flush_loses_no_message(
    process: Process,
    connection: tuple[Connection, list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: type[BaseException],
) -> None:
    sender, received = connection

    def dumps(value: Any) -> bytes:
        signal.raise_signal(number)
        return marshal.dumps(value)

    process.send(sender, (1, "here"))
    monkeypatch.setattr("kernel_processes.transport.plain_values.marshal", SimpleNamespace(dumps=dumps))
    with pytest.raises(error):
        process.flush()
        step()
    process.pump.poll_now()
    assert received == [(1, "here")]
    assert_in_order(process)


@RAISES
def test_a_signal_amid_the_handling_of_messages_loses_none(
    process: Process, connection: tuple[Connection, list[Any]], number: int, error: type[BaseException]
) -> None:
    _, received = connection
    sender = connection[0]
    waiter = Waiter()

    def first(receiver: Any, message: Any) -> None:
        signal.raise_signal(number)
        step()
        received.append(message)

    def second(receiver: Any, message: Any) -> None:
        received.append(message)
        waiter.complete()

    process.handlers |= {101: first, 102: second}
    receiver = next(handler.__self__ for fd, handler in process.reactor._handlers.items() if fd not in (sender.fd,)
                    and isinstance(getattr(handler, "__self__", None), Connection))  # fmt: skip
    receiver.on_messages = process._on_messages
    receiver.info = SimpleNamespace(via=receiver)
    sender.send((101,))
    sender.send((102,))
    sender.flush()
    with pytest.raises(error):
        process.pump.wait(waiter, time.monotonic() + SECONDS)
        step()
    assert (received, waiter.remaining) == ([(101,), (102,)], 0)
    assert_in_order(process)


@RAISES
def test_a_signal_amid_sending_leaves_no_message_behind(
    process: Process, connection: tuple[Connection, list[Any]], number: int, error: type[BaseException]
) -> None:
    sender, received = connection

    class Outbox(list[Any]):
        def append(self, message: Any) -> None:
            super().append(message)
            signal.raise_signal(number)

    sender.outbox = Outbox()
    with pytest.raises(error):
        process.send(sender, (1, "here"))
        step()
    process.flush()
    process.pump.poll_now()
    assert received == [(1, "here")]


@RAISES
def test_a_handler_is_not_called_while_the_lock_is_held(
    process: Process, number: int, error: type[BaseException]
) -> None:
    reached = []
    with pytest.raises(error):
        with process.lock:
            signal.raise_signal(number)
            step()
            reached.append("the end")
        step()
    assert reached == ["the end"]


@RAISES
def test_a_signal_in_a_destructor_is_not_swallowed(process: Process, number: int, error: type[BaseException]) -> None:
    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(number)

    with pytest.raises(error):
        Dropped()
        step()
    assert_in_order(process)


class Collected:
    """What others look on with as Python collects garbage: a function, a method, or an object that is called."""

    def __init__(self, number: int) -> None:
        self.number = number

    def method(self, phase: str, info: Any) -> None:
        signal.raise_signal(self.number)
        step()

    __call__ = method

    def function(self) -> Callable[..., None]:
        return lambda phase, info: self.method(phase, info)


@RAISES
@pytest.mark.parametrize("kind", ["function", "method", "object"])
def test_a_signal_amid_a_collection_of_garbage_is_not_swallowed(
    process: Process, number: int, error: type[BaseException], kind: str
) -> None:
    collected = Collected(number)
    kinds: dict[str, Any] = {"function": collected.function(), "method": collected.method, "object": collected}
    callback = kinds[kind]
    gc.callbacks.append(callback)
    try:
        with pytest.raises(error):
            gc.collect(0)
            step()
    finally:
        gc.callbacks.remove(callback)
    assert_in_order(process)


@RAISES
def test_a_signal_in_a_finalizer_is_not_swallowed(process: Process, number: int, error: type[BaseException]) -> None:
    class Dropped:
        pass

    weakref.finalize(dropped := Dropped(), Collected(number).method, "", None)
    weak = weakref.WeakSet([dropped])
    with pytest.raises(error):
        del dropped
        step()
    assert not weak
    assert_in_order(process)


@RAISES
@pytest.mark.parametrize("where", ["polls", "is parked"])
def test_a_signal_ends_a_wait(process: Process, number: int, error: type[BaseException], where: str) -> None:
    if where == "is parked":
        process.pump._poll_lock.acquire()

    def strike() -> None:
        pump = process.pump
        wait_until(lambda: pump._parked if where == "is parked" else pump._poll_lock.locked(), SECONDS, "the wait")
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    striking = threading.Thread(target=strike)
    striking.start()
    with pytest.raises(error):
        process.pump.wait(Waiter(), time.monotonic() + SECONDS)
    striking.join()
    if where == "is parked":
        process.pump._poll_lock.release()
    assert_in_order(process)


def test_a_signal_that_came_just_before_a_wait_began_ends_it_soon(process: Process) -> None:
    def strike() -> None:
        wait_until(process.pump._poll_lock.locked, SECONDS, "the wait")
        time.sleep(0.05)  # until the main thread is in the system's call, most likely; if not, the test is easier
        _thread.interrupt_main()  # Python has noted the signal, and nothing wakes the main thread

    striking = threading.Thread(target=strike)
    striking.start()
    with pytest.raises(KeyboardInterrupt):
        process.pump.wait(Waiter(), time.monotonic() + SECONDS)
    striking.join()


def test_a_handler_that_does_not_raise_may_wait_for_something_itself(process: Process) -> None:
    outer, inner = Waiter(), Waiter()
    seen: list[str] = []

    def save(number: int, frame: Any) -> None:
        process.reactor.call_later(0.001, inner.complete)
        assert process.pump.wait(inner, time.monotonic() + SECONDS)
        seen.append("saved")
        outer.complete()

    signal.signal(signal.SIGALRM, save)
    process.reactor.call_later(0, lambda: signal.raise_signal(signal.SIGALRM))
    assert process.pump.wait(outer, time.monotonic() + SECONDS)
    assert seen == ["saved"]
    assert_in_order(process)


def test_a_handler_is_called_once_for_a_signal_and_with_its_frame(process: Process) -> None:
    calls: list[tuple[int, str]] = []
    signal.signal(signal.SIGALRM, lambda number, frame: calls.append((number, frame.f_code.co_name)))
    with process.lock:
        signal.raise_signal(signal.SIGALRM)
        for _ in range(100):
            step()
        assert calls == []
    for _ in range(100):
        step()
    assert [number for number, _ in calls] == [signal.SIGALRM]


def test_what_came_before_another_handler_is_set_goes_to_the_one_before(process: Process) -> None:
    seen: list[str] = []
    signal.signal(signal.SIGALRM, lambda number, frame: seen.append("before"))
    with process.lock:
        signal.raise_signal(signal.SIGALRM)
    signal.signal(signal.SIGALRM, lambda number, frame: seen.append("after"))
    step()
    assert seen == ["before"]


def test_the_program_sees_the_handlers_that_it_has_set(process: Process) -> None:
    def handler(number: int, frame: Any) -> None:
        return

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGUSR1) is raise_deadline
    assert signal.signal(signal.SIGALRM, handler) is raise_deadline
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.signal(signal.SIGALRM, signal.SIG_IGN) is handler
    assert signal.signal(signal.SIGALRM, signal.SIG_DFL) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    with pytest.raises(TypeError):
        signal.signal(signal.SIGALRM, "handler")  # type: ignore[arg-type]


def test_outside_of_a_session_handlers_are_called_as_ever(process: Process) -> None:
    process.interrupts.remove()
    with pytest.raises(Deadline), process.lock:
        signal.raise_signal(signal.SIGALRM)


def test_a_handler_of_an_event_loop_is_told_once(process: Process) -> None:
    seen: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, seen.append, "told")
        with process.lock:
            signal.raise_signal(signal.SIGALRM)
            for _ in range(100):
                step()
        await asyncio.sleep(0)
        while not seen:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert seen == ["told"]


def test_without_a_call_nobody_gets_what_a_handler_raises(process: Process) -> None:
    runs: list[Callable[[], bool]] = [lambda: False]
    process.interrupts.install(lambda: runs[0]())
    signal.raise_signal(signal.SIGALRM)
    signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGUSR1, lambda number, frame: os.abort() if runs[0]() else exit(3))
    with pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGUSR1)
    runs[0] = lambda: True
    with pytest.raises(Deadline):
        signal.raise_signal(signal.SIGALRM)
    process.interrupts.remove()
    process.interrupts.install()


CLIENT = """
import os, signal, weakref

class Client:
    def watch(self, thing):
        return weakref.ref(thing, self.gone)

    def gone(self, watch):
        os.kill(os.getpid(), signal.SIGUSR1)
        for _ in range(10):
            pass
"""


def test_what_a_stores_client_does_when_a_view_is_gone_is_not_interrupted(
    process: Process, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "client_of_a_store.py").write_text(CLIENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    cls = importlib.import_module("client_of_a_store").Client
    take_in(cls)
    thing = cls()
    watch = cls().watch(thing)
    with pytest.raises(Deadline):
        del thing
        step()
    assert watch() is None
