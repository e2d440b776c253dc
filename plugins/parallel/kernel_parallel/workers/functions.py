"""Choose the functions that are sent to a worker only once, and their keys."""

from __future__ import annotations

import contextlib
import itertools
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

UNKEPT = -1
"""The key of a function that travels with each chunk."""


_LOCAL_SECONDS = 20e-6
"""A call that is quicker has not talked to another process, so it can't have waited for another call."""
_SIGHTINGS = 16
"""How many quick calls in a row make a function a quick one."""
MESSAGE_SECONDS = 0.001
"""How much work of quick calls goes into one message."""


class Functions:
    """Gives keys to plain functions and classes, which are the same whenever they are sent, and notes what they take.

    A closure, a bound method or a `functools.partial` carries values that may have changed since, and gets no key.
    """

    def __init__(self) -> None:
        self._keys: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakKeyDictionary[Any, tuple[float, int]] = weakref.WeakKeyDictionary()
        self._needed: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
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
        seen = self._look(function)
        return seen[0] if seen else None

    def burst(self, function: Callable[..., Any]) -> int:
        """Return how many single calls may share a message: one, unless many were seen and all were quick.

        What may have to wait for another call must not stand in its way, so nothing slower is ever put together.
        """
        seen = self._look(function)
        if seen is None or seen[1] < _SIGHTINGS or seen[1] < self._needed.get(function, _SIGHTINGS):
            return 1
        return max(1, int(MESSAGE_SECONDS / max(seen[0], 1e-6)))

    def keep_apart(self, function: Callable[..., Any]) -> None:
        """Put no calls of this function together until ten times as many were quick: one was not."""
        with self._lock, contextlib.suppress(TypeError):
            self._needed[function] = self._needed.get(function, _SIGHTINGS) * 10
            self._seen.pop(function, None)

    def learn(self, function: Callable[..., Any], seconds: float, calls: int) -> None:
        """Note what each of so many calls took."""
        quick = seconds < _LOCAL_SECONDS
        try:
            with self._lock:
                before = self._seen.get(function)
                self._seen[function] = (seconds, (before[1] if before else 0) + calls if quick else 0)
        except TypeError:  # can't be hashed, or referred to weakly
            return

    def _look(self, function: Callable[..., Any]) -> tuple[float, int] | None:
        try:
            with self._lock:
                return self._seen.get(function)
        except TypeError:
            return None


def is_plain(function: Any) -> bool:
    """Return whether a callable is a function without a closure, or a class."""
    if isinstance(function, types.FunctionType):
        return function.__closure__ is None
    if isinstance(function, types.BuiltinFunctionType):
        return function.__self__ is None or isinstance(function.__self__, types.ModuleType)
    return type(function) is type
