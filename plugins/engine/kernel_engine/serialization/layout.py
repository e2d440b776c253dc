"""The layout of a serialized value in the object store: lengths, head, then each buffer at a multiple of 64 bytes.

u32 number of buffers, u32 zero, u64 length of the head, u64 length of each buffer
head
buffers, each aligned
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kernel_spec.serialization import Buffer

_FIXED = Struct("<IIQ")
_ALIGNMENT = 64
_BIG_COPY = 1 << 20


def _aligned(position: int) -> int:
    return (position + _ALIGNMENT - 1) & ~(_ALIGNMENT - 1)


def _lengths(buffers: Sequence[Buffer]) -> list[int]:
    return [len(b) if isinstance(b, bytes) else memoryview(b).nbytes for b in buffers]


def packed_size(head: bytes, buffers: Sequence[Buffer]) -> int:
    """Return how many bytes `pack` will write."""
    position = _FIXED.size + 8 * len(buffers) + len(head)
    for length in _lengths(buffers):
        position = _aligned(position) + length
    return position


def pack(target: memoryview, head: bytes, buffers: Sequence[Buffer]) -> None:
    """Write the value into `target`, which has `packed_size` bytes."""
    lengths = _lengths(buffers)
    _FIXED.pack_into(target, 0, len(buffers), 0, len(head))
    position = _FIXED.size
    if lengths:
        Struct(f"<{len(lengths)}Q").pack_into(target, position, *lengths)
        position += 8 * len(lengths)
    target[position : position + len(head)] = head
    position += len(head)
    for buffer, length in zip(buffers, lengths, strict=True):
        position = _aligned(position)
        if length:
            _copy(target[position : position + length], buffer, length)
        position += length


def unpack(source: memoryview) -> tuple[memoryview, list[memoryview]]:
    """Return head and buffers as views of `source`."""
    count, _, head_length = _FIXED.unpack_from(source, 0)
    position = _FIXED.size
    lengths = Struct(f"<{count}Q").unpack_from(source, position) if count else ()
    position += 8 * count
    head = source[position : position + head_length]
    position += head_length
    buffers = []
    for length in lengths:
        position = _aligned(position)
        buffers.append(source[position : position + length])
        position += length
    return head, buffers


def _copy(target: memoryview, buffer: Buffer, length: int) -> None:
    if length < _BIG_COPY:
        target[:] = memoryview(buffer).cast("B")
        return
    import numpy  # Lets other threads run while it copies.

    numpy.copyto(numpy.frombuffer(target, numpy.uint8), numpy.frombuffer(buffer, numpy.uint8))
