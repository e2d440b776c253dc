"""Determine where an exception from outside (of a signal handler or a cancellation) would leave an operation half done.

Critical sections are: the kernel's own code, which handles messages, keeps counts and returns values; all code that it
calls under its lock or in functions marked `@critical`, and in local mode all code that it calls; and code that Python
calls when objects are created or dropped, and whose exceptions it swallows: destructors, callbacks of the garbage
collector, finalizers and weak collections. User code that the kernel has called is not critical, nor are the places
where a thread only waits.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

_RUNTIME = os.path.dirname(os.path.abspath(__file__))
_API = os.path.join(os.path.dirname(_RUNTIME), "api")
_own = (
    os.path.join(_RUNTIME, ""),
    *(os.path.join(_API, name) for name in ("actor.py", "generators.py", "operations.py", "remote_function.py")),
)
"""Files and folders of the kernel's own code that must not be interrupted. Engines add theirs."""
_amid_submission: tuple[str, ...] = ()
"""Folders of code that runs calls during their submission: the code that it calls must not be interrupted either."""
_DESTRUCTOR = "__del__"
_WEAK = {function.__code__.co_filename for function in (weakref.finalize.__call__, weakref.WeakSet.add)}
"""The files of the code of finalizers and of weak collections."""
_MARK = "_kernel_came_from_outside"

_F = TypeVar("_F", bound=Callable[..., Any])

_critical: set[CodeType] = set()
_boundaries: set[CodeType] = set()
_waits: dict[CodeType, set[CodeType]] = {}
_locks: list[threading.RLock] = []


def critical(function: _F) -> _F:
    """Protect a function, and all code that it calls, from exceptions from outside."""
    _critical.add(function.__code__)
    return function


def calls_user_code(function: _F) -> _F:
    """Mark a function whose callees are user code: these may be interrupted even inside of critical code."""
    _boundaries.add(function.__code__)
    return function


def catches_interrupts(*waits: Callable[..., Any]) -> Callable[[_F], _F]:
    """Mark a function that catches `Interrupted` around its calls of `waits`."""

    def mark(function: _F) -> _F:
        for wait in waits:
            _waits.setdefault(wait.__code__, set()).add(function.__code__)
        return function

    return mark


def take_in(cls: type) -> None:
    """Count the file of a class as the kernel's own code.

    For a store's client: it is called when a view is gone, where Python swallows exceptions.
    """
    global _own
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is not None and file not in _own:
        _own = (*_own, file)


def take_in_folders(*folders: str) -> None:
    """Count the code in folders as the kernel's own; for the code of an engine."""
    global _own
    inside = (os.path.join(folder, "") for folder in folders)
    _own = (*_own, *(folder for folder in inside if folder not in _own))


def take_in_all(folder: str) -> None:
    """Count the code in a folder as the kernel's own, and what it calls with it, unless that is the user's.

    For an engine of one process, whose calls run during their submission.
    """
    global _amid_submission
    inside = os.path.join(folder, "")
    if inside not in _amid_submission:
        _amid_submission = (*_amid_submission, inside)


class Interrupted(BaseException):
    """End a wait at once, and call `deliver` after it. The wait goes on, unless `deliver` raises.

    Raised in a waiting thread by a signal handler (see `signals`). The waits catch it.
    """

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


def guard(lock: threading.RLock) -> None:
    """Count code that runs under a lock as critical."""
    if lock not in _locks:
        _locks.append(lock)


def unguard(lock: threading.RLock) -> None:
    """Undo `guard`."""
    if lock in _locks:
        _locks.remove(lock)


def is_guarded() -> bool:
    """Whether this program is in a session."""
    return bool(_locks)


def holds_lock() -> bool:
    """Whether this thread holds a lock that is guarded."""
    for lock in _locks:  # noqa: SIM110  (every wait asks, and a generator would take five times as long)
        if lock._is_owned():  # type: ignore[attr-defined]
            return True
    return False


def is_waiting(frame: FrameType) -> bool:
    """Whether `frame` only waits, and its caller catches `Interrupted`."""
    callers = _waits.get(frame.f_code)
    return callers is not None and frame.f_back is not None and frame.f_back.f_code in callers


def is_critical(frame: FrameType | None) -> bool:
    """Whether a thread whose innermost frame is `frame` must not be interrupted now."""
    if frame is None:
        return False
    if _is_own(frame.f_code):
        return True
    swallowing = _swallowing()
    while frame is not None and frame.f_code not in _boundaries:
        code = frame.f_code
        if code in _critical or code.co_name == _DESTRUCTOR or code in swallowing:
            return True
        if code.co_filename.startswith(_amid_submission) or code.co_filename in _WEAK:
            return True
        frame = frame.f_back
    return False


def is_in_own_code(frame: FrameType | None) -> bool:
    """Whether the kernel's own code has called, directly or not, the code in `frame`, and not as a call of the user.

    This is stricter than `is_critical`, for callers that can't know whether the thread holds a lock.
    """
    if frame is not None and frame.f_code in _boundaries:
        return True
    swallowing = _swallowing()
    while frame is not None and frame.f_code not in _boundaries:
        code = frame.f_code
        if _is_own(code) or code.co_name == _DESTRUCTOR:
            return True
        if code in swallowing or code.co_filename in _WEAK:
            return True
        frame = frame.f_back
    return False


def _is_own(code: CodeType) -> bool:
    """Return whether code is the kernel's own wherever it is called; what runs amid the submission may merely wait."""
    return code.co_filename.startswith(_own) and not code.co_filename.startswith(_amid_submission)


def _swallowing() -> set[CodeType | None]:
    """Return the code that Python calls during garbage collection."""
    return {getattr(each, "__code__", getattr(type(each).__call__, "__code__", None)) for each in gc.callbacks}


def from_outside(error: BaseException) -> BaseException:
    """Mark an exception as raised from outside, independent of the code that it interrupts, and return it."""
    setattr(error, _MARK, True)
    return error


def is_from_outside(error: BaseException) -> bool:
    """Whether an exception came from a signal handler or another thread, so that it is raised as it is."""
    return hasattr(error, _MARK)
