"""Interrupting a thread where nothing is left half done.

Ctrl-C and cancellations strike a thread between any two steps. Where that would tear the state of this process apart
(under its lock, amid a wait or a write), or where Python would swallow it, the interrupt is kept: the thread raises it
itself at the end of the wait, or is struck again a moment later.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Container
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from kernel.runtime.remote_traceback import is_internal
from kernel.runtime.waiting import Pump, sleep
from kernel.transport.connection import Connection
from kernel.transport.reactor import Reactor

if TYPE_CHECKING:
    from kernel.runtime.process import Process

AGAIN_SECONDS = 0.002
"""How long after it was kept an interrupt strikes again, in case its thread does not wait."""

_MERELY_WAITING = (Reactor.poll.__code__, sleep.__code__)
_FOLDERS = tuple(os.path.dirname(code.co_filename) + os.sep for code in (sleep.__code__, Reactor.poll.__code__))
"""Of the runtime and the transport, whose own code is interrupted nowhere else."""
_SWALLOWS = "__del__"


class Interrupts:
    """The interrupts of one process. Those that are kept are in `pump.interrupts`, by thread."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._kept = process.pump.interrupts
        self._whole: Container[CodeType] = frozenset(
            function.__code__ for function in (Pump.wait, Pump.poll_now, Connection.flush, process.flush, process.send)
        )

    def install(self) -> None:
        """Keep Ctrl-C from tearing state apart, unless the program has a handler of its own. In the main thread."""
        if threading.current_thread() is threading.main_thread() and (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, lambda number, frame: self.strike(frame))

    def strike(self, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt in this thread, now or as soon as it, now in `frame`, is not amid something."""
        thread = threading.get_ident()
        self._kept.pop(thread, None)
        if not self._holds_lock() and not self._is_amid_something(frame):
            raise KeyboardInterrupt
        self._kept[thread] = KeyboardInterrupt()
        self._process.reactor.call_later(AGAIN_SECONDS, lambda: self._signal_again(thread))

    def _signal_again(self, thread: int) -> None:
        if thread in self._kept:
            signal.pthread_kill(thread, signal.SIGINT)

    def raise_kept(self) -> None:
        """Raise what was kept for this thread, unless it holds the lock."""
        if self._kept and not self._holds_lock():
            error = self._kept.pop(threading.get_ident(), None)
            if error is not None:
                raise error

    def interrupt_call(self, thread: int, runs: Callable[[], bool], runner: Container[CodeType]) -> None:
        """Raise KeyboardInterrupt in `thread` as long as `runs()`: in a wait, or in what `runner` has called.

        To be called by the thread that polls, under the lock, so that `thread` can have neither of them meanwhile.
        """
        if thread == threading.main_thread().ident:
            signal.pthread_kill(thread, signal.SIGINT)  # whose handler calls `strike`, or not if it is too late
            return
        self._kept[thread] = KeyboardInterrupt()
        if not runs():  # and may have looked already: it must not raise this in its next call
            self._kept.pop(thread, None)
        self._process.pump.poke_parked()
        self._process.reactor.call_later(AGAIN_SECONDS, lambda: self._strike_again(thread, runs, runner))

    def _strike_again(self, thread: int, runs: Callable[[], bool], runner: Container[CodeType]) -> None:
        with self._process.lock:
            if self._kept.pop(thread, None) is None or not runs():
                return
            if not _strike_from_outside(thread, lambda: runs() and _is_in_user_code(thread, runner)):
                self.interrupt_call(thread, runs, runner)

    def _holds_lock(self) -> bool:
        return self._process.lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def _is_amid_something(self, frame: FrameType | None) -> bool:
        if frame is None or frame.f_code in _MERELY_WAITING:
            return False
        if frame.f_code.co_filename.startswith(_FOLDERS):
            return True
        while frame is not None:
            if frame.f_code in self._whole or frame.f_code.co_name == _SWALLOWS:
                return True
            frame = frame.f_back
        return False


def _is_in_user_code(thread: int, runner: Container[CodeType]) -> bool:
    """Return whether a thread is in code that `runner` has called, and in none of the kernel's that this called."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code not in runner:
        if is_internal(frame.f_code.co_filename) or frame.f_code.co_name == _SWALLOWS:
            return False
        frame = frame.f_back
    return frame is not None


def _strike_from_outside(thread: int, may_be_struck: Callable[[], bool]) -> bool:
    """Set an exception that another thread raises with its next step; return whether it did, or will, where it may."""
    if may_be_struck():
        _set_exception(thread, KeyboardInterrupt)
        if may_be_struck():
            return True
        _set_exception(thread, None)  # it has gone on between the two looks
    return False


def _set_exception(thread: int, kind: type[BaseException] | None) -> None:
    import ctypes

    error = ctypes.py_object(kind) if kind is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
