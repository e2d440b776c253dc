"""Settings as dataclasses that refuse unknown fields, and that can be given as dicts."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from kernel_runs.arguments import ArgumentError, nearest

SettingsT = TypeVar("SettingsT")


def refuses_unknown(kind: type[SettingsT]) -> type[SettingsT]:
    """Make a dataclass raise `ArgumentError`, with the nearest field, for an argument that is not one of its fields."""
    plain: Any = kind.__init__
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]

    @functools.wraps(plain)
    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        for name in named:
            if name not in names:
                hint = nearest(name, names) or f" Its arguments are {', '.join(names)}."
                raise ArgumentError(f"{kind.__name__} has no argument {name!r}.{hint}")
        plain(self, *arguments, **named)

    kind.__init__ = __init__  # type: ignore[method-assign, assignment]
    return kind


def made(kind: type[SettingsT], given: Any) -> SettingsT:
    """Return settings: those given, or new ones from a dict of their fields or from None.

    Raises `ArgumentError` for anything else, and for a key that is not a field.
    """
    if isinstance(given, kind):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(f"{given!r} is not a {kind.__name__}: give one, or a dict of its fields")
    return kind(**dict(given or {}))
