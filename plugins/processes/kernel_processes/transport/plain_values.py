"""Reduce values of users to plain ones for messages: they may be of a subclass, such as an enumeration's members."""

from __future__ import annotations

import marshal
from typing import Any

_ATOMS: tuple[type, ...] = (str, bytes, bool, int, float)
_LISTS: tuple[type, ...] = (list, tuple, set, frozenset)


def encoded(batch: list[Any]) -> bytes:
    """Return messages as bytes. Raises ValueError for a value that is of no plain type, nor of a subclass of one."""
    try:
        return marshal.dumps(batch)
    except ValueError:
        return marshal.dumps(_plain(batch))


def _plain(value: Any) -> Any:
    for cls in _ATOMS:
        if isinstance(value, cls):
            return value if type(value) is cls else _base_value(cls, value)
    for cls in _LISTS:
        if isinstance(value, cls):
            return cls(_plain(item) for item in value)  # type: ignore[call-arg]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value


def _base_value(cls: Any, value: Any) -> Any:
    """Return the value as one of the plain type, whatever its class overrides."""
    if cls is str:
        return "".join(str.__iter__(value))
    if cls is bytes:
        return bytes(memoryview(value))
    return int.__int__(value) if cls is int else float.__float__(value)
