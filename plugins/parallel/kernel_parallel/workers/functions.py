"""Which functions are sent to a worker once, and under which key."""

from __future__ import annotations

import itertools
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

UNKEPT = -1
"""The key of a function that travels with each chunk."""


class Functions:
    """Gives keys to plain functions and classes, which are the same whenever they are sent, and notes what they take.

    A closure, a bound method or a `functools.partial` carries values that may have changed since, and gets no key.
    """

    def __init__(self) -> None:
        self._keys: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._seconds: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self._next = itertools.count()
        self._lock = threading.Lock()

    def key_of(self, function: Callable[..., Any]) -> int:
        """Return the function's key, or UNKEPT."""
        if not is_plain(function):
            return UNKEPT
        with self._lock:
            key = self._keys.get(function)
            if key is None:
                key = self._keys[function] = next(self._next)
            return key

    def seconds_per_item(self, function: Callable[..., Any]) -> float | None:
        """Return what a call took when it was last seen, or None."""
        with self._lock:
            return self._seconds.get(function) if is_plain(function) else None

    def learn(self, function: Callable[..., Any], seconds: float) -> None:
        """Note what a call took."""
        if is_plain(function):
            with self._lock:
                self._seconds[function] = seconds


def is_plain(function: Any) -> bool:
    """Return whether a callable is a function without a closure, or a class."""
    if isinstance(function, types.FunctionType):
        return function.__closure__ is None
    if isinstance(function, types.BuiltinFunctionType):
        return function.__self__ is None or isinstance(function.__self__, types.ModuleType)
    return type(function) is type
