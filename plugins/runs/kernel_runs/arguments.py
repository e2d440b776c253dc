"""Checks of what people pass to schedulers and stoppers: the messages name the class, the argument and its value."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from kernel_runs.errors import RunError
from kernel_spec.nearest import nearest as most_like


class ArgumentError(RunError, ValueError, TypeError):
    """An argument has a value or a type that can't be used, or there is no such argument."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the known name that is most like this one, or nothing where none is like it."""
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
    """Raise `ArgumentError` unless mode is "min" or "max", or None where it may be."""
    if mode not in ("min", "max") and not (optional and mode is None):
        raise ArgumentError(f"{_name(owner)}: mode is {mode!r}, but must be 'min' or 'max'")


def check_callable(owner: object, name: str, value: Any) -> None:
    """Raise `ArgumentError` unless the value can be called."""
    if not callable(value):
        raise ArgumentError(f"{_name(owner)}: {name} is {value!r}, which can't be called; pass a function")


def older_names(owner: object, given: Mapping[str, Any], current: Mapping[str, str],
                known: Iterable[str] = (), depth: int = 4) -> dict[str, Any]:  # fmt: skip
    """Return arguments that were given under older names by their current ones, with a DeprecationWarning.

    `current` maps an older name to the current one. None counts as not given. A name that is in neither `current` nor
    this table raises `ArgumentError` with the nearest of `known`. `depth` calls above is the line that is warned of.
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in current:
            raise ArgumentError(f"{_name(owner)} has no argument {name!r}.{nearest(name, [*known, *current])}")
        if value is not None:
            text = f"{_name(owner)}: {name} is now called {current[name]}"
            warnings.warn(text, DeprecationWarning, stacklevel=depth)
            values[current[name]] = value
    return values


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__
