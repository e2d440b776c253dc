"""Trainables and environments by name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from kernel_tune.errors import TuneError
from kernel_tune.trainable.function import wrap_function
from kernel_tune.trainable.trainable import Trainable

_trainables: dict[str, type[Trainable]] = {}
_environments: dict[str, Callable[[Any], Any]] = {}
_finders: list[Callable[[str], Any]] = []


def register_trainable(name: str, trainable: Any) -> None:
    """Give a function or a `Trainable` class a name that experiments may use in place of it."""
    _trainables[name] = as_trainable(trainable, name)


def register_env(name: str, env_creator: Callable[[Any], Any]) -> None:
    """Give a function that makes an environment of its configuration a name."""
    if not callable(env_creator):
        raise TypeError(f"environment {name!r} is {env_creator!r}: it is a function that makes one")
    _environments[name] = env_creator


def find_environment(name: str) -> Callable[[Any], Any] | None:
    """Return what was registered as an environment, or None."""
    return _environments.get(name)


def find_trainables_with(finder: Callable[[str], Any]) -> None:
    """Have `finder(name)` asked for trainables that nobody has registered: for libraries that bring some."""
    _finders.append(finder)


def find_trainable(name: str) -> type[Trainable]:
    """Return the trainable with this name. Raises TuneError that names what is near."""
    if name in _trainables:
        return _trainables[name]
    for finder in _finders:
        found = finder(name)
        if found is not None:
            return as_trainable(found, name)
    near = difflib.get_close_matches(name, _trainables, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise TuneError(f"no trainable is registered as {name!r}{hint} (tune.register_trainable(name, function or class))")


def as_trainable(given: Any, name: str | None = None) -> type[Trainable]:
    """Return the class of what users give as a trainable: a class, a function, or something with `as_trainable()`."""
    if inspect.isclass(given) and issubclass(given, Trainable):
        return given
    if hasattr(given, "as_trainable"):
        return as_trainable(given.as_trainable(), name)
    if inspect.isclass(given):
        raise TypeError(f"{given.__name__} is a class, but no tune.Trainable: derive it from that, or give a function")
    if not callable(given):
        raise TypeError(f"a trainable is a function, a tune.Trainable class or a registered name, not {given!r}")
    return wrap_function(given, name)


def name_of(trainable: Any) -> str:
    """Return what a trainable is called; `lambda` where it has no name."""
    if isinstance(trainable, str):
        return trainable
    if isinstance(trainable, functools.partial):
        return name_of(trainable.func)
    name = str(getattr(trainable, "__name__", None) or type(trainable).__name__)
    return "lambda" if name == "<lambda>" else name
