"""Place a serialized value: a small one in its entry and in messages, a large one in the object store.

A stored value is `(size in bytes, places)`. A place is the gateway ("HOST:PORT") of a node that has it; where nodes
have none, there is one node only, and no places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernel.runtime.object_entry import INLINE, STORED
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.serialization import Buffer

INLINE_BYTES = 100 * 1024
"""Larger values live in the object store, smaller ones travel inside messages."""

Stored = tuple[int, tuple[str, ...]]


def inline(head: bytes, buffers: Sequence[Buffer]) -> Any:
    """Return a serialized value as the value of an `INLINE` entry."""
    return (head, [bytes(buffer) for buffer in buffers]) if buffers else head


def inline_or_stored(
    write: Callable[..., Stored],
    id: ObjectId,
    head: bytes,
    buffers: Sequence[Buffer],
    owner: ProcessId,
    weak: bool = False,
    largest: int = INLINE_BYTES,
) -> tuple[int, Any]:
    """Return a serialized value as state and value of the entry `id`, in the store if it is larger than `largest`.

    `write` is that of the store. Raises what it raises.
    """
    size = len(head)
    if buffers:
        size += sum(memoryview(buffer).nbytes for buffer in buffers)
    if size > largest:
        return STORED, write(id, head, buffers, owner, weak)
    return INLINE, inline(head, buffers)


def in_message(state: int, value: Any) -> tuple[Any, ...]:
    """Return state and value of a ready entry as they travel."""
    if state == STORED:
        return (2, *value)
    if type(value) is tuple:
        return (1, *value)
    return (0, value)
