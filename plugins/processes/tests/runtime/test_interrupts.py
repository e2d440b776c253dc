"""Threads are interrupted where nothing is left half done: in user code and waits, not the bookkeeping between them."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kernel.runtime.waiter import Waiter
from kernel_processes.protocol.identity import Identity
from kernel_processes.runtime import message_pump
from kernel_processes.runtime.process import Process

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


@pytest.fixture
def process(tmp_path: Any) -> Iterator[Process]:
    process = Process(Identity(b"process1", "worker", b"node", b"job", str(tmp_path), b"token"))  # type: ignore[arg-type]
    yield process
    process.interrupts.remove()
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
            self._work()
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
            self.process.interrupts.interrupt_call(self.ident, self.is_alive)

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
    assert not process.pump._poll_lock.locked()
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
    monkeypatch.setattr(message_pump, "sleep", lambda signal, seconds: signal.acquire())  # only a poke ends it
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
        process.interrupts.interrupt_call(threading.get_native_id(), lambda: False)
    assert_in_order(process)


# -- exceptions that programs set in their threads ---------------------------------------------------------------------


class Deadline(Exception):
    """What a program sets."""


@pytest.fixture
def installed(process: Process) -> Process:
    process.interrupts.install()
    return process


def set_exception(thread: Any, error: Any) -> int:
    return ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)


def raised_by(call: Call) -> list[type]:
    return [type(error) for error in call.raised]


@pytest.mark.parametrize("work", ["user code", "a wait"])
def test_an_exception_that_a_program_sets_is_raised(installed: Process, work: str) -> None:
    call = Call(installed, spin if work == "user code" else lambda: installed.pump.wait(Waiter()))
    assert set_exception(ctypes.c_ulong(call.ident or 0), ctypes.py_object(Deadline)) == 1
    poll_until(installed, lambda: not call.is_alive())
    assert raised_by(call) == [Deadline]
    assert_in_order(installed)


def test_an_exception_that_a_program_sets_strikes_nothing_that_holds_the_lock(installed: Process) -> None:
    amid, goes_on = threading.Event(), threading.Event()
    reached: list[str] = []

    def work() -> None:
        with installed.lock:
            amid.set()
            while not goes_on.is_set():
                sum(range(10))
            reached.append("the end")
        installed.raise_interrupt()

    call = Call(installed, work)
    assert amid.wait(SECONDS)
    assert set_exception(call.ident, ctypes.py_object(Deadline)) == 1
    goes_on.set()
    poll_until(installed, lambda: not call.is_alive())
    assert (reached, raised_by(call)) == (["the end"], [Deadline])


def test_an_exception_that_a_program_sets_strikes_no_callback_of_the_collector(
    installed: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python would swallow it there."""
    amid, goes_on = threading.Event(), threading.Event()
    strikes: list[bool] = []
    collecting: list[int] = []
    strike = installed.interrupts._strike

    def counted(*arguments: Any) -> None:
        strike(*arguments)
        strikes.append(True)

    def callback(phase: str, info: Any) -> None:
        if threading.get_ident() in collecting and phase == "start":
            amid.set()
            while not goes_on.is_set():
                sum(range(10))

    def work() -> None:
        collecting.append(threading.get_ident())
        gc.collect(0)
        collecting.clear()
        spin()

    monkeypatch.setattr(installed.interrupts, "_strike", counted)
    gc.callbacks.append(callback)
    try:
        call = Call(installed, work)
        assert amid.wait(SECONDS)
        assert set_exception(call.ident, ctypes.py_object(Deadline)) == 1
        poll_until(installed, lambda: len(strikes) > 2)
        assert call.is_alive() and not call.raised
        goes_on.set()
        poll_until(installed, lambda: not call.is_alive())
    finally:
        gc.callbacks.remove(callback)
    assert raised_by(call) == [Deadline]


@pytest.mark.parametrize(
    "nothing", [None, 0, ctypes.c_void_p(0), ctypes.py_object()], ids=["None", "0", "void", "null"]
)
def test_an_exception_that_was_set_is_taken_back(installed: Process, nothing: Any) -> None:
    with installed.lock:
        installed.pump.interrupts[threading.get_ident()] = Deadline()
        assert set_exception(ctypes.c_long(threading.get_ident()), nothing) == 1
    assert_in_order(installed)


def test_a_thread_that_is_not_there_gets_no_exception(installed: Process) -> None:
    assert set_exception(1, ctypes.py_object(Deadline)) == 0
    assert_in_order(installed)


def test_outside_of_a_session_exceptions_are_set_as_ever(process: Process) -> None:
    process.interrupts.install()
    process.interrupts.remove()
    call = Call(process, spin)
    assert set_exception(call.ident, ctypes.py_object(Deadline)) == 1
    call.join(SECONDS)
    assert raised_by(call) == [Deadline]
    assert set_exception(1, None) == 0


def test_a_thread_sets_an_exception_in_itself(installed: Process) -> None:
    with pytest.raises(Deadline):
        set_exception(threading.get_ident(), ctypes.py_object(Deadline))
        poll_until(installed, lambda: False)
    assert sys.exc_info() == (None, None, None)
