"""The globals of functions that only the program itself has, shared by all of them in a worker.

Such a function arrives with a copy of what it needs of its module. In a worker of the standard library there is one
module: an initializer sets a global, and the functions of the tasks read it. So here they get one, too.
"""

from __future__ import annotations

import hashlib
import importlib
import types
from functools import partial
from typing import Any

from kernel_parallel.workers.payload import pack


class SharedModules:
    """Module name to the globals that all functions of that module use in this process."""

    def __init__(self) -> None:
        self._globals: dict[str, dict[str, Any]] = {}
        self._imported: dict[str, bool] = {}
        self._arrived: dict[tuple[str, str], tuple[Any, bytes | None]] = {}
        """By module and name, the value that came last, and what it was then."""

    def adopt(self, function: Any) -> Any:
        """Return a callable whose globals are those of the functions adopted before, if they are of the same module.

        Functions and classes that come with it replace older ones. So do other values that the program has changed
        since they came last, unless functions here have set them.
        """
        if isinstance(function, types.FunctionType):
            shared = self._shared_by(function)
            return function if shared is None else _moved(function, function.__globals__, shared)
        if isinstance(function, types.MethodType):
            if isinstance(function.__func__, types.FunctionType):
                self._shared_by(function.__func__)
            return types.MethodType(self.adopt(function.__func__), function.__self__)
        if type(function) is partial:
            return partial(self.adopt(function.func), *function.args, **function.keywords)
        return function

    def _shared_by(self, function: types.FunctionType) -> dict[str, Any] | None:
        """Merge a function's globals into the shared ones, and return those if they are not the same."""
        own = function.__globals__
        name = own.get("__name__") or function.__module__
        shared = self._globals.get(name)
        if shared is None:
            found = _globals_of(name)
            self._imported[name] = found is not None
            shared = self._globals[name] = own if found is None else found
        if shared is own:
            self._note_arrivals(name, own)
            return None
        for key, value in list(own.items()):
            if isinstance(value, types.FunctionType) and value.__globals__ is own:
                shared[key] = _moved(value, own, shared)
            elif isinstance(value, type):
                _move_methods(value, own, shared)
                shared[key] = value
            elif self._is_news(name, key, value, shared):
                shared[key] = value
        if not self._imported[name]:
            self._note_arrivals(name, own)
        return shared

    def _is_news(self, name: str, key: str, value: Any, shared: dict[str, Any]) -> bool:
        """Return whether the program has changed a value since it came last, and nobody has set it here."""
        if key not in shared:
            return True
        if self._imported[name] or (name, key) not in self._arrived:
            return False
        before, digest = self._arrived[name, key]
        return shared[key] is before and (digest is None or digest != _digest(value))

    def _note_arrivals(self, name: str, own: dict[str, Any]) -> None:
        shared = self._globals[name]
        for key, value in own.items():
            if shared.get(key) is value and not key.startswith("__"):
                self._arrived[name, key] = (value, _digest(value))


def _digest(value: Any) -> bytes | None:
    """Return what stands for a plain value, or None for others, which always count as changed."""
    packed = pack(value)
    return hashlib.blake2b(packed, digest_size=16).digest() if isinstance(packed, bytes) else None


def _globals_of(name: str) -> dict[str, Any] | None:
    """Return the globals of a module that workers can import: a function made in a function there came without it."""
    if name == "__main__":
        return None  # a worker's own, which is not the program's
    try:
        return importlib.import_module(name).__dict__
    except Exception:  # only the program has it, or it can't be imported here
        return None


def _moved(function: types.FunctionType, own: dict[str, Any], shared: dict[str, Any]) -> types.FunctionType:
    if function.__globals__ is not own:
        return function
    moved = types.FunctionType(
        function.__code__, shared, function.__name__, function.__defaults__, function.__closure__
    )
    moved.__kwdefaults__ = function.__kwdefaults__
    moved.__qualname__, moved.__module__ = function.__qualname__, function.__module__
    moved.__dict__.update(function.__dict__)
    return moved


def _move_methods(cls: type, own: dict[str, Any], shared: dict[str, Any]) -> None:
    for name, value in list(vars(cls).items()):
        if isinstance(value, types.FunctionType) and value.__globals__ is own:
            setattr(cls, name, _moved(value, own, shared))
