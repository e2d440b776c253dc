"""The globals of functions that only the program itself has, shared by all of them in a worker.

Such a function arrives with a copy of what it needs of its module. In a worker of the standard library there is one
module: an initializer sets a global, and the functions of the tasks read it. So here they get one, too.
"""

from __future__ import annotations

import importlib
import types
from functools import partial
from typing import Any


class SharedModules:
    """Module name to the globals that all functions of that module use in this process."""

    def __init__(self) -> None:
        self._globals: dict[str, dict[str, Any]] = {}

    def adopt(self, function: Any) -> Any:
        """Return a callable whose globals are those of the functions adopted before, if they are of the same module.

        Functions and classes that come with it are newer and replace older ones; other values that are there stay.
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
            shared = self._globals[name] = _globals_of(name) or own
        if shared is own:
            return None
        for key, value in list(own.items()):
            if isinstance(value, types.FunctionType) and value.__globals__ is own:
                shared[key] = _moved(value, own, shared)
            elif isinstance(value, type):
                _move_methods(value, own, shared)
                shared[key] = value
            else:
                shared.setdefault(key, value)
        return shared


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
