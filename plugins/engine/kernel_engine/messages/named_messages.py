"""Messages with named fields: each kind is a class of `MessageFields`, and on the wire a plain tuple.

Kinds that are sent for every task, lease or object have no classes: their tuples are written where they are sent, and
described beside their numbers. The page about the wire (docs/wire.md) is made from both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kernel_spec.errors import ProtocolError

Message = tuple[Any, ...]
"""A message on the wire: its number and its fields."""

Kind = TypeVar("Kind", bound=tuple[Any, ...])
"""A class of `MessageFields`."""

_NUMBERS: dict[type, int] = {}
_WAYS: dict[type, str] = {}


def numbered(number: int, way: str) -> Callable[[type[Kind]], type[Kind]]:
    """Return what makes a class of `MessageFields` a kind of message. `way` says from whom to whom it goes."""

    def declare(kind: type[Kind]) -> type[Kind]:
        _NUMBERS[kind], _WAYS[kind] = number, way
        return kind

    return declare


def is_kind(value: object) -> bool:
    """Return whether this is a kind of message."""
    return isinstance(value, type) and value in _NUMBERS


def number_of(kind: type[tuple[Any, ...]]) -> int:
    """Return the number of a kind."""
    return _NUMBERS[kind]


def way_of(kind: type[tuple[Any, ...]]) -> str:
    """Return from whom to whom a kind goes."""
    return _WAYS[kind]


def packed(fields: tuple[Any, ...]) -> Message:
    """Return what the wire carries of a message, `fields` being of one of the kinds."""
    return (_NUMBERS[type(fields)], *fields)


def unpacked(kind: type[Kind], message: Message) -> Kind:
    """Return a message that is known to be of `kind`. Raises ProtocolError if it has not the fields of one."""
    try:
        return kind(*message[1:])
    except TypeError as error:
        raise ProtocolError(f"a peer sent {message!r:.100}, which is no {kind.__name__}: {error}") from error
