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
"""The entry points by which an installed library offers trainables by name, without being imported before."""

GROUP_OF_REASONS = "kernel.trainables.reasons"
"""The entry points by which an installed library says of a name why it offers none: functions of a name."""

_trainables = SharedNames("trainable")
_environments = SharedNames("environment")


def register_trainable(name: str, trainable: Any) -> None:
    """Give a function or a `Trainable` class a name that experiments may use in place of it, in all processes."""
    _trainables.register(name, as_trainable(trainable, name))


def know_trainable(name: str, trainable: Any) -> None:
    """Do as `register_trainable` in this process alone: for what is sent to others anyway, or only used here."""
    _trainables.know(name, as_trainable(trainable, name))


def register_env(name: str, env_creator: Callable[[Any], Any]) -> None:
    """Give a function that makes an environment of its configuration a name, which all processes of a program know."""
    if not callable(env_creator):
        raise TypeError(f"environment {name!r} is {env_creator!r}: it is a function that makes one")
    _environments.register(name, env_creator)


def find_environment(name: str) -> Callable[[Any], Any] | None:
    """Return what was registered as an environment, here or by the program that this process works for, or None.

    Raises RunError where it was registered elsewhere, and can't be sent here.
    """
    found: Callable[[Any], Any] | None = _environments.find(name)
    return found


def environment_names() -> Iterable[str]:
    """Return the names of all environments that were registered."""
    return _environments.names()


def find_trainable(name: str) -> type[Trainable]:
    """Return the trainable with this name: one that was registered, or that an installed library offers.

    Raises RunError that names what is near, or has what an installed library says of the name.
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
    """Return the class of what users give as a trainable: a class, a function, or something with `as_trainable()`."""
    if inspect.isclass(given) and issubclass(given, Trainable):
        return given
    if hasattr(given, "as_trainable"):
        return as_trainable(given.as_trainable(), name)
    if inspect.isclass(given):
        raise TypeError(f"{given.__name__} is a class, but no Trainable: derive it from that, or give a function")
    if not callable(given):
        raise TypeError(f"a trainable is a function, a Trainable class or a registered name, not {given!r}")
    return wrap_function(given, name)


def name_of(trainable: Any) -> str:
    """Return what a trainable is called; `lambda` where it has no name."""
    if isinstance(trainable, str):
        return trainable
    if isinstance(trainable, functools.partial):
        return name_of(trainable.func)
    name = str(getattr(trainable, "__name__", None) or type(trainable).__name__)
    return "lambda" if name == "<lambda>" else name
