"""Checks of users' arguments. Messages name the class, the argument and its value."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

from kernel_runs.errors import RunError
from kernel_spec.nearest import nearest as most_like

_MOST_LISTED = 20
"""The largest number of arguments that a message lists."""


class ArgumentError(RunError, ValueError, TypeError):
    """An argument has a value or a type that can't be used, or does not exist."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" with the known name that is most like this one, or "" if none is similar."""
    found = most_like(name, known)
    return f" Did you mean {found!r}?" if found else ""


def check_number(
    owner: object, name: str, value: Any, *, above: float | None = None, least: float | None = None,
    most: float | None = None,
) -> None:  # fmt: skip
    """Raise `ArgumentError` unless the value is a number, not NaN, and within the bounds."""
    wanted = [f"above {above:g}"] if above is not None else []
    wanted += [f"at least {least:g}"] if least is not None else []
    wanted += [f"at most {most:g}"] if most is not None else []
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    good = good and (above is None or value > above) and (least is None or value >= least)
    if not good or (most is not None and value > most):
        said = f"a number {' and '.join(wanted)}" if wanted else "a number"
        raise ArgumentError(f"{_name(owner)}: {name} is {value!r}, but must be {said}")


def check_whole(owner: object, name: str, value: Any, *, least: int) -> None:
    """Raise `ArgumentError` unless the value is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ArgumentError(f"{_name(owner)}: {name} is {value!r}, but must be a whole number, at least {least}")


def check_mode(owner: object, mode: Any, *, optional: bool = True) -> None:
    """Raise `ArgumentError` unless mode is "min" or "max", or None if it is `optional`."""
    if mode not in ("min", "max") and not (optional and mode is None):
        raise ArgumentError(f"{_name(owner)}: mode is {mode!r}, but must be 'min' or 'max'")


def check_callable(owner: object, name: str, value: Any) -> None:
    """Raise `ArgumentError` unless the value can be called."""
    if not callable(value):
        raise ArgumentError(f"{_name(owner)}: {name} is {value!r}, which can't be called; pass a function")


def refuse_unknown(owner: object, given: Iterable[str], function: Callable[..., Any]) -> None:
    """Raise `ArgumentError` if `given` has a name: it is an argument that `function` does not have.

    The message names the nearest argument of `function`, and all of them unless they are too many to read.
    """
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    known = [each.name for each in parameters if each.kind not in kinds and each.name != "self"]
    for name in given:
        listed = f" Its arguments are {', '.join(known)}." if 0 < len(known) <= _MOST_LISTED else ""
        raise ArgumentError(f"{_name(owner)} has no argument {name!r}.{nearest(name, known)}{listed}")


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__
