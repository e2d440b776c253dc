"""Arguments of a call as bytes. Results of other calls among them are passed on as they came, without unpickling.

Large arguments, and those with references inside, are put into the object store, and a reference to that travels.
References that are arguments themselves travel as they are: the receiver alone reads their values.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from typing import Any

import kernel
from kernel_serve.wire.pickling import LARGE, loads, pack

STORED = "stored"
"""Marks arguments that are in the object store."""

Encoded = tuple[bytes, Any, "Sequence[kernel.ObjectRef]"]
"""The bytes to send, the sizes for `fetch`, and references to keep until the arguments were decoded."""


class ArgumentPart:
    """Stands, among pickled arguments, for one that follows them as bytes of its own, or as a reference."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return ArgumentPart, (self.index,)


def encode(args: tuple[Any, ...], kwargs: dict[str, Any], parts: Sequence[bytes | kernel.ObjectRef] = ()) -> Encoded:
    """Return the arguments as bytes. `parts[i]` is what `ArgumentPart(i)` stands for: its bytes, or a reference.

    Raises SerializationError for arguments that can't be pickled, and what `kernel.put` raises.
    """
    pickled = _packed(args, kwargs)
    if pickled is None:
        stored = kernel.put((args, kwargs, list(parts)))
        return _alone(stored), STORED, (stored,)
    if not parts:
        return pickled, None, ()
    pieces = [part if type(part) is bytes else _alone(part) for part in parts]
    signs = [1 if type(part) is bytes else -1 for part in parts]
    sizes = [sign * len(piece) for sign, piece in zip(signs, pieces, strict=True)]
    kept = [part for part in parts if isinstance(part, kernel.ObjectRef)]
    return b"".join((pickled, *pieces)), [len(pickled), *sizes], kept


def _alone(reference: Any) -> bytes:
    with kernel.collect_references():  # the caller keeps them
        return pickle.dumps(reference, 5)


def decode(data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that `encode` returned as bytes alone, without sizes."""
    args, kwargs = loads(data)
    return args, kwargs


async def fetch(data: bytes, sizes: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that `encode` returned as bytes and `sizes`. Raises what `kernel.get` raises."""
    if sizes == STORED:
        args, kwargs, parts = await value_of(loads(data))
        values = [loads(part) if type(part) is bytes else await value_of(part) for part in parts]
        return _filled(args, kwargs, values)
    args, kwargs = loads(data[: sizes[0]])
    values, position = [], sizes[0]
    for size in sizes[1:]:  # sizes of references are negative
        value = loads(data[position : position + abs(size)])
        values.append(await value_of(value) if size < 0 else value)
        position += abs(size)
    return _filled(args, kwargs, values)


async def value_of(reference: kernel.ObjectRef) -> Any:
    """Return the value of a reference, which is read beside the event loop. Raises what `kernel.get` raises."""
    return await asyncio.wrap_future(reference.future())


def _filled(args: tuple[Any, ...], kwargs: dict[str, Any], values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def filled(argument: Any) -> Any:
        return values[argument.index] if isinstance(argument, ArgumentPart) else argument

    return tuple(filled(each) for each in args), {name: filled(each) for name, each in kwargs.items()}


def _packed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
    for argument in args:
        if type(argument) is bytes and len(argument) >= LARGE:  # found beforehand, since pickle copies bytes
            return None
    return pack((args, kwargs))
