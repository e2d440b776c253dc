"""Call signal handlers only where they may raise, and may use the session.

Python calls a signal's handler between any two steps of the main thread. During the handling of messages, an exception
of the handler would lose a message, and a call of the kernel in it would find state that is half changed. So in a
program with a session each handler is wrapped in a `DeferredHandler`. That calls it as Python does, except that in a
critical section the signal counts as not having arrived yet: it arrives again with the next step, until that is
outside. `signal.getsignal` returns the handler that was set. All this costs nothing while no signal arrives.
"""

from __future__ import annotations

import _thread
import importlib
import signal
import threading
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
"""The module in C that the module `signal`, and all that was imported from it, calls."""
_set_handler: Callable[[int, Any], Any] = _python.signal
_get_handler: Callable[[int], Any] = _python.getsignal
_LOOPS = ("asyncio.unix_events", "uvloop")

_log = Logger("kernel.runtime")
_has_receiver: Callable[[], bool] | None = None


class _Repeat:
    """`repeat[number]` has Python call the handler of a signal again, with the next step that it looks for signals.

    It is no call: after one Python looks for signals, and would find this one before the handler that asks for it has
    returned.
    """

    __getitem__ = _thread.interrupt_main


_repeat: Any = _Repeat()


class DeferredHandler:
    """Calls `handler` as soon as nothing is left half done by it."""

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        if is_guarded() and frame is not None:
            if not holds_lock() and is_waiting(frame):
                raise Interrupted(lambda: self.call(number, frame))
            if holds_lock() or is_critical(frame):
                _repeat[number]
                return
        self.call(number, frame)

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
    return _plain(_set_handler(number, DeferredHandler(handler) if _is_to_defer(handler) else handler))


def _get_deferred(number: int, /) -> Any:
    return _plain(_get_handler(number))


def _plain(handler: Any) -> Any:
    return handler.handler if type(handler) is DeferredHandler else handler


def _is_to_defer(handler: Any) -> bool:
    """Whether a handler may raise. One of an event loop doesn't, and the loop would count a signal that comes again."""
    if not callable(handler) or isinstance(handler, (DeferredHandler, signal.Handlers)):
        return False
    owner = type(getattr(handler, "__self__", None)).__module__
    return not (getattr(handler, "__module__", None) or owner).startswith(_LOOPS) and not owner.startswith(_LOOPS)
