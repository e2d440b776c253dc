"""Interrupt a thread at a point where nothing is left half done.

A cancellation, or an exception that a program sets in one of its threads, is kept: the thread raises it itself at the
end of a wait, or of a request to the session. If it does neither for a moment, the exception is raised in it where it
runs code of the user. Signals are deferred by `signals`.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable

from kernel.runtime import critical_sections
from kernel_engine import signals
from kernel_processes.runtime import async_exceptions
from kernel_processes.runtime.message_pump import MessagePump
from kernel_processes.transport.reactor import Reactor

AGAIN_SECONDS = 0.002
"""Seconds before an interrupt is tried again, in case its thread does not wait."""


class Interrupts:
    """Delivers the interrupts of one process. `pump.interrupts` keeps, by thread, those that were not raised yet."""

    def __init__(self, lock: threading._RLock, reactor: Reactor, pump: MessagePump) -> None:
        self._lock, self._reactor, self._pump = lock, reactor, pump
        self._kept = pump.interrupts

    def install(self, has_receiver: Callable[[], bool] | None = None) -> None:
        """Let no exception from outside strike a thread amid something of this process, from now on.

        `has_receiver()` says whether code of the user runs in the main thread, as it always does in a program.
        """
        critical_sections.guard(self._lock)
        signals.install(has_receiver)
        async_exceptions.install(self.interrupt_thread)

    def remove(self) -> None:
        """Undo `install`, because this process leaves its session."""
        critical_sections.unguard(self._lock)
        async_exceptions.remove(self.interrupt_thread)

    def raise_kept(self) -> None:
        """Raise what was kept for this thread, unless it holds the lock."""
        if self._kept and not critical_sections.holds_lock():
            error = self._kept.pop(threading.get_ident(), None)
            if error is not None:
                raise critical_sections.from_outside(error)

    def interrupt_call(self, thread: int, runs: Callable[[], bool]) -> None:
        """Raise KeyboardInterrupt in `thread` as long as `runs()`: in a wait, or in code of the user.

        To be called by the thread that polls, under the lock, so that `thread` can have neither of them meanwhile.
        """
        if thread == threading.main_thread().ident:
            signal.pthread_kill(thread, signal.SIGINT)  # The signal's handler raises, unless it is too late.
        else:
            self._interrupt(thread, KeyboardInterrupt, runs)

    def interrupt_thread(self, thread: int, kind: type[BaseException] | None) -> bool:
        """Raise an exception in a thread, as `interrupt_call` does; None takes back what it has not raised yet.

        Return whether there is such a thread.
        """
        self._kept.pop(thread, None)
        _set_exception(thread, None)
        found = thread in sys._current_frames()
        if found and kind is not None:
            self._interrupt(thread, kind, lambda: thread in sys._current_frames())
        return found

    def _interrupt(self, thread: int, kind: type[BaseException], runs: Callable[[], bool]) -> None:
        self._kept[thread] = kind()
        if not runs():  # The thread may have looked already: its next call must not raise this.
            self._kept.pop(thread, None)
        self._reactor.call_later(AGAIN_SECONDS, lambda: self._strike(thread, kind, runs))
        self._pump.look_for_interrupts()

    def _strike(self, thread: int, kind: type[BaseException], runs: Callable[[], bool]) -> None:
        with self._lock:
            error = self._kept.get(thread)
            if type(error) is not kind or self._kept.pop(thread, None) is None or not runs():
                return
            if not _strike_from_outside(thread, kind, lambda: runs() and _is_in_user_code(thread)):
                self._interrupt(thread, kind, runs)


def _is_in_user_code(thread: int) -> bool:
    frame = sys._current_frames().get(thread)
    return frame is not None and not critical_sections.is_in_own_code(frame)


def _strike_from_outside(thread: int, kind: type[BaseException], may_be_struck: Callable[[], bool]) -> bool:
    """Set an exception that another thread raises with its next step; return whether it did, or will, where it may."""
    if may_be_struck():
        _set_exception(thread, kind)
        if may_be_struck():
            return True
        _set_exception(thread, None)  # The thread went on between the two looks.
    return False


def _set_exception(thread: int, kind: type[BaseException] | None) -> None:
    error = ctypes.py_object(kind) if kind is not None else None
    async_exceptions.set_exception(ctypes.c_ulong(thread), error)
