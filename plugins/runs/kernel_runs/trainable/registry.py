"""Trainables and environments by name."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from kernel_runs.arguments import nearest
from kernel_runs.errors import RunError
from kernel_runs.shared_names import SharedNames
from kernel_runs.trainable.function import wrap_function
from kernel_runs.trainable.trainable import Trainable

GROUP = "kernel.trainables"
"""The group of entry points by which an installed library offers trainables, without being imported before."""

GROUP_OF_REASONS = "kernel.trainables.reasons"
"""The group of entry points with functions from a name to the reason why a library does not offer it, or None."""

_trainables = SharedNames("trainable")
_environments = SharedNames("environment")


def register_trainable(name: str, trainable: Any) -> None:
    """Register a function or a `Trainable` class under a name that experiments of all processes may use instead."""
    _trainables.register(name, as_trainable(trainable, name))


def know_trainable(name: str, trainable: Any) -> None:
    """Register a trainable in this process only: for one that is sent to other processes anyway, or is local."""
    _trainables.know(name, as_trainable(trainable, name))


def register_env(name: str, env_creator: Callable[[Any], Any]) -> None:
    """Register a function from a configuration to an environment under a name, for all processes of the program."""
    if not callable(env_creator):
        raise TypeError(f"environment {name!r} is {env_creator!r}: it is a function that makes one")
    _environments.register(name, env_creator)


def find_environment(name: str) -> Callable[[Any], Any] | None:
    """Return the function that was registered for an environment by any process of this program, or None.

    Raises RunError if another process registered it, and it can't be sent here.
    """
    found: Callable[[Any], Any] | None = _environments.find(name)
    return found


def environment_names() -> Iterable[str]:
    """Return the names of all registered environments."""
    return _environments.names()


def find_trainable(name: str) -> type[Trainable]:
    """Return the trainable with this name: a registered one, or one of an installed library.

    Raises RunError that suggests a similar name, or gives the reason of an installed library.
    """
    known: type[Trainable] | None = _trainables.find(name)
    if known is not None:
        return known
    for point in importlib.metadata.entry_points(group=GROUP, name=name):
        return as_trainable(point.load(), name)
    for point in importlib.metadata.entry_points(group=GROUP_OF_REASONS):
        reason = point.load()(name)
        if reason is not None:
            raise RunError(str(reason))
    raise RunError(
        f"no trainable is registered as {name!r}: register_trainable(name, function or class) does that."
        f"{nearest(name, [*_trainables.names(), *importlib.metadata.entry_points(group=GROUP).names])}"
    )


def as_trainable(given: Any, name: str | None = None) -> type[Trainable]:
    """Return a trainable class for a class, a function or an object with `as_trainable()`, else raise TypeError."""
    if inspect.isclass(given) and issubclass(given, Trainable):
        return given
    if hasattr(given, "as_trainable"):
        return as_trainable(given.as_trainable(), name)
    if inspect.isclass(given):
        raise TypeError(f"{given.__name__} is a class, but not a Trainable: derive it from that, or give a function")
    if not callable(given):
        raise TypeError(f"a trainable is a function, a Trainable class or a registered name, not {given!r}")
    return wrap_function(given, name)


def name_of(trainable: Any) -> str:
    """Return the name of a trainable; "lambda" if it has none."""
    if isinstance(trainable, str):
        return trainable
    if isinstance(trainable, functools.partial):
        return name_of(trainable.func)
    name = str(getattr(trainable, "__name__", None) or type(trainable).__name__)
    return "lambda" if name == "<lambda>" else name
