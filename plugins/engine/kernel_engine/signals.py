"""Call signal handlers only where they may raise, and may use the session.

Python calls a signal's handler between any two steps of the main thread. During the handling of messages, an exception
of the handler would lose a message, and a call of the kernel in it would find state that is half changed. So in a
program with a session each handler is wrapped in a `DeferredHandler`. That calls it as Python does, except that in a
critical section the signal counts as not having arrived yet: it arrives again with the next step, until that is
outside. `signal.getsignal` returns the handler that was set. All this costs nothing while no signal arrives.

A call of C that lasts, `time.sleep` for example, may begin before the next step at which Python looks for signals. Only
a signal that arrives during the call ends it. So a deferred one is also sent again, until its handler runs.
"""

from __future__ import annotations

import _thread
import importlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from kernel.logs import Logger
from kernel.runtime.critical_sections import (
    Interrupted,
    calls_user_code,
    from_outside,
    holds_lock,
    is_critical,
    is_guarded,
    is_waiting,
)

_python: Any = importlib.import_module("_signal")
"""The module in C that the module `signal` calls, and with it all functions that were imported from that."""
_set_handler: Callable[[int, Any], Any] = _python.signal
_get_handler: Callable[[int], Any] = _python.getsignal
_send: Callable[[int, int], None] = _python.pthread_kill
_LOOPS = ("asyncio.unix_events", "uvloop")
_SEND_AGAIN_SECONDS = 0.05
"""Seconds between two real signals for one that is deferred."""

_log = Logger("kernel.runtime")
_has_receiver: Callable[[], bool] | None = None


class _Repeat:
    """Has Python call the handler of a signal again by `repeat[number]`, at its next look for signals.

    This is an item access and no call: after a call Python looks for signals, and would find this one before the
    handler that asks for it has returned.
    """

    __getitem__ = _thread.interrupt_main


_repeat: Any = _Repeat()


class DeferredHandler:
    """Calls `handler` as soon as it can leave nothing half done."""

    __slots__ = ("_deferred_in", "_is_deciding", "_sender_in", "handler")

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.handler = handler
        self._is_deciding = False
        self._deferred_in = self._sender_in = 0
        """The process in which the signal is deferred, and that in which a thread sends it again."""

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        if self._is_deciding:  # The present decision holds for this signal, too.
            return
        self._is_deciding = True
        try:
            waits, is_deferred = _situation(frame)
            if is_deferred:
                self._defer(number)
            else:
                self._end_deferral()
        finally:
            self._is_deciding = False
        if is_deferred:
            _repeat[number]
        elif waits:
            raise Interrupted(lambda: self.call(number, frame))
        else:
            self.call(number, frame)

    def _defer(self, number: int) -> None:
        process = self._deferred_in = os.getpid()
        if self._sender_in != process:
            self._sender_in = process
            try:
                _thread.start_new_thread(self._send_again, (number, process))
            except RuntimeError:  # No thread can start: a call of C may delay the signal.
                self._sender_in = 0

    def _send_again(self, number: int, process: int) -> None:
        """Send the signal to the main thread as long as it is deferred. Runs in a thread of its own."""
        main_thread = threading.main_thread().ident or 0
        while True:
            time.sleep(_SEND_AGAIN_SECONDS)
            # Python changes threads only at calls and jumps back: the deferral neither begins nor ends from here on.
            if self._deferred_in != process:
                self._sender_in = 0
                return
            _send(main_thread, number)

    def _end_deferral(self) -> None:
        """Send the signal no more, and let one that was sent before arrive while that calls no handler."""
        if self._deferred_in:
            self._deferred_in = 0
            _thread.get_ident()  # Python looks for signals after each call of C.

    def drop(self) -> None:
        """Send a deferred signal no more: another handler takes it."""
        self._deferred_in = 0

    @calls_user_code
    def call(self, number: int, frame: FrameType | None) -> None:
        """Call the handler. Its exception is raised in the user's code that runs here, if there is any."""
        try:
            self.handler(number, frame)
        except BaseException as error:
            if _has_receiver is None or _has_receiver() or isinstance(error, SystemExit):
                raise from_outside(error)  # noqa: B904  (the same error)
            if not isinstance(error, KeyboardInterrupt):
                _log.warning("a signal handler raised while no call ran", signal=number, exc_info=True)


def _situation(frame: FrameType | None) -> tuple[bool, bool]:
    """Return whether a thread merely waits in `frame`, and whether its signals are to be deferred."""
    if frame is not None and frame.f_code is _set_deferred.__code__:  # The program changes a handler.
        frame = frame.f_back
    if frame is None or not is_guarded():
        return False, False
    if holds_lock():
        return False, True
    waits = is_waiting(frame)
    return waits, not waits and is_critical(frame)


def install(has_receiver: Callable[[], bool] | None = None) -> None:
    """Defer the handlers that are set, as far as this is the main thread, and those that will be.

    `has_receiver()` says whether code of the user runs in the main thread, to which an exception can go; always, unless
    it is given.
    """
    global _has_receiver
    _has_receiver = has_receiver
    _python.signal, _python.getsignal = _set_deferred, _get_deferred
    if threading.current_thread() is threading.main_thread():
        for number in signal.valid_signals():
            handler = _get_handler(number)
            if callable(handler):
                _set_deferred(number, handler)


def _set_deferred(number: int, handler: Any, /) -> Any:
    before = _set_handler(number, DeferredHandler(handler) if _is_to_defer(handler) else handler)
    if type(before) is DeferredHandler:
        before.drop()
    return _plain(before)


def _get_deferred(number: int, /) -> Any:
    return _plain(_get_handler(number))


def _plain(handler: Any) -> Any:
    return handler.handler if type(handler) is DeferredHandler else handler


def _is_to_defer(handler: Any) -> bool:
    """Return whether a handler may raise.

    That of an event loop does not, and the loop would count a repeated signal.
    """
    if not callable(handler) or isinstance(handler, (DeferredHandler, signal.Handlers)):
        return False
    owner = type(getattr(handler, "__self__", None)).__module__
    return not (getattr(handler, "__module__", None) or owner).startswith(_LOOPS) and not owner.startswith(_LOOPS)
