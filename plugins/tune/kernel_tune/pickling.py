"""Why something can't be sent to the processes of trials: the variable that is to blame, by name."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

from kernel_tune.errors import TuneError

_DEEPEST = 12


class PicklingError(TuneError, TypeError):
    """A trainable, or something that it uses, can't be sent to another process."""


def check(send: Callable[[Any], Any], trainable: Any, name: str) -> Any:
    """Return `send(trainable)`; raise `PicklingError` that names the captured variable where it can't be pickled."""
    try:
        return send(trainable)
    except Exception as error:
        found = find(trainable)
        if found is None:
            raise
        path, value, reason = found
        variable = path[-1] if path else name
        through = f" (by way of {', '.join(path[:-1])})" if path[:-1] else ""
        raise PicklingError(
            f"trainable {name} can't be sent to the processes of its trials: {variable}{through} is a "
            f"{type(value).__qualname__}, which can't be pickled ({reason}). Make it inside of the trainable, "
            "where each trial gets its own; or, if it is data, give it as what can be pickled, by "
            f"tune.with_parameters({name}, ...)"
        ) from error


def find(value: Any) -> tuple[list[str], Any, str] | None:
    """Return where in a value there is something that can't be pickled, what, and why; None if all can be.

    The path is of words for people: `variable 'lock'`, `attribute 'socket'`, `item 3`.
    """
    reason = _reason(value)
    return None if reason is None else _deeper([], value, reason, set())


def _deeper(path: list[str], value: Any, reason: str, seen: set[int]) -> tuple[list[str], Any, str]:
    seen.add(id(value))
    if len(path) < _DEEPEST:
        for word, inner in _parts(value):
            if id(inner) in seen:
                continue
            inner_reason = _reason(inner)
            if inner_reason is not None:
                return _deeper([*path, word] if word else path, inner, inner_reason, seen)
    return path, value, reason


def _reason(value: Any) -> str | None:
    try:
        cloudpickle.dumps(value)
    except Exception as error:  # pickling runs methods of users' classes
        return f"{type(error).__name__}: {error}"
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is pickled with a value, each with a word for it."""
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield "", value.__func__
        yield "its object", value.__self__
    elif isinstance(value, functools.partial):
        yield "", value.func
        yield from ((f"argument {number}", each) for number, each in enumerate(value.args))
        yield from ((f"argument {name!r}", each) for name, each in value.keywords.items())
    elif isinstance(value, type):
        for name, inner in vars(value).items():
            function = getattr(inner, "__func__", inner)
            if isinstance(function, types.FunctionType):
                yield (f"{function.__name__}()" if name != "function" else "", function)
            elif not name.startswith("__") and not inspect.isdatadescriptor(inner):
                yield f"class variable {name!r}", inner
        yield from ((f"base class {base.__name__}", base) for base in value.__bases__ if base is not object)
    elif isinstance(value, dict):
        yield from ((f"item {key!r}", inner) for key, inner in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"item {number}", inner) for number, inner in enumerate(value))
    else:
        yield from ((f"attribute {name!r}", inner) for name, inner in getattr(value, "__dict__", {}).items())


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"variable {name!r}", cell.cell_contents
        except ValueError:  # not set yet
            continue
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield f"global variable {name!r}", function.__globals__[name]
    yield from ((f"default {number}", each) for number, each in enumerate(function.__defaults__ or ()))
    yield from ((f"default {name!r}", each) for name, each in (function.__kwdefaults__ or {}).items())


def _names(code: types.CodeType) -> set[str]:
    """Return the global names that a function and those inside of it use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
