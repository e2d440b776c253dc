"""The fields of settings: unknown ones are refused with the nearest that there is, and dicts of them are accepted."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from kernel_runs.arguments import ArgumentError, nearest

SettingsT = TypeVar("SettingsT")


def refuses_unknown(kind: type[SettingsT]) -> type[SettingsT]:
    """Have a dataclass raise `ArgumentError` for an argument that it has not, with the nearest that it has.

    Where it has a method `_of_older(arguments)`, that is given them first, to return those of older releases by the
    fields of today.
    """
    plain: Any = kind.__init__
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    of_older = getattr(kind, "_of_older", dict)

    @functools.wraps(plain)
    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        current = of_older(named)
        for name in current:
            if name not in names:
                raise ArgumentError(f"{kind.__name__} has no argument {name!r}.{nearest(name, names)}")
        plain(self, *arguments, **current)

    kind.__init__ = __init__  # type: ignore[method-assign, assignment]
    return kind


def made(kind: type[SettingsT], given: Any) -> SettingsT:
    """Return settings that are given, or made of a dict of their fields, or of nothing.

    Raises `ArgumentError` for anything else, and for a key that is no field.
    """
    if isinstance(given, kind):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(f"{given!r} is no {kind.__name__}: give one, or a dict of its fields")
    return kind(**dict(given or {}))
