"""Raise exceptions that one thread sets in another only at points where they leave nothing half done.

Programs with deadlines set them with `ctypes.pythonapi.PyThreadState_SetAsyncExc`, and Python raises them at the next
step of that thread, wherever it is. In a program with a session that name stands for `interrupt`, which chooses the
step. Exceptions that are set by another handle on the interpreter's library, or by code in C, are not seen here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

Interrupt = Callable[[int, "type[BaseException] | None"], bool]

_NAME = "PyThreadState_SetAsyncExc"
set_exception: Any = ctypes.pythonapi[_NAME]
"""The function of the interpreter itself."""
_interrupts: list[Interrupt] = []


class _SetAsyncExc:
    """Replaces the function for programs, which may set the types of its arguments, as for any function of C."""

    argtypes: Any = None
    restype: Any = ctypes.c_int
    errcheck: Any = None

    def __call__(self, thread: Any, error: Any) -> int:
        if not _interrupts:
            return int(set_exception(ctypes.c_ulong(_value(thread)), _pointer(error)))
        return int(_interrupts[-1](_value(thread), _exception(error)))


def install(interrupt: Interrupt) -> None:
    """Call `interrupt(thread, kind)` for exceptions that are set from now on; the kind None withdraws one."""
    if interrupt not in _interrupts:
        _interrupts.append(interrupt)
    if not isinstance(getattr(ctypes.pythonapi, _NAME), _SetAsyncExc):
        setattr(ctypes.pythonapi, _NAME, _SetAsyncExc())


def remove(interrupt: Interrupt) -> None:
    """Undo `install`."""
    if interrupt in _interrupts:
        _interrupts.remove(interrupt)


def _value(thread: Any) -> int:
    return int(getattr(thread, "value", thread))


def _exception(error: Any) -> type[BaseException] | None:
    if isinstance(error, type) and issubclass(error, BaseException):
        return error
    try:
        value = getattr(error, "value", None)  # The argument may be a py_object or a null pointer.
    except ValueError:
        return None
    return value if isinstance(value, type) and issubclass(value, BaseException) else None


def _pointer(error: Any) -> Any:
    kind = _exception(error)
    return ctypes.py_object(kind) if kind is not None else None
