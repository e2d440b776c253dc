"""Compresses what is worth it: payloads of some size, when it makes them a good deal smaller.

An encoded head is `count u32`, then for the head and each buffer one flag (compressed or not), then the head.
Buffers stay buffers, so one that would not shrink (a picture, noise) is passed on without a copy.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from kernel_spec.serialization import Buffer, Payload, SerializerBase

_COUNT = struct.Struct("<I")
_SAMPLE = 16 * 1024


class ZlibSerializer(SerializerBase):
    """Compresses parts of at least `least_bytes`, at zlib's `level`, that shrink to `worth` of their size or less."""

    name = "zlib"

    def __init__(self, *, least_bytes: int = 4096, level: int = 1, worth: float = 0.8) -> None:
        self.least_bytes = least_bytes
        self.level = level
        self.worth = worth

    def encode(self, payload: Payload) -> Payload:
        """Return a compressed payload, or `payload` itself when nothing in it shrinks."""
        if payload.size < self.least_bytes:
            return payload
        parts = [self._smaller(part) for part in (payload.head, *payload.buffers)]
        if not any(parts):
            return payload
        flags = bytes(part is not None for part in parts)
        head = payload.head if parts[0] is None else parts[0]
        buffers = [old if new is None else new for old, new in zip(payload.buffers, parts[1:], strict=True)]
        return Payload(_COUNT.pack(len(flags)) + flags + head, buffers)

    def decode(self, head: bytes, buffers: Sequence[Buffer]) -> Payload:
        """Undo `encode`. Raises ValueError, struct.error or zlib.error for what it did not make."""
        (count,) = _COUNT.unpack_from(head)
        if count != len(buffers) + 1:
            raise ValueError(f"the head is for {count - 1} buffers, but {len(buffers)} came")
        flags = head[_COUNT.size : _COUNT.size + count]
        inner = head[_COUNT.size + count :]
        decoded = [zlib.decompress(part) if flag else part for flag, part in zip(flags[1:], buffers, strict=True)]
        return Payload(zlib.decompress(inner) if flags[0] else inner, decoded)

    def _smaller(self, part: Buffer) -> bytes | None:
        """Return `part` compressed, None when that is not worth it; a sample decides before much time is spent."""
        data = memoryview(part).cast("B")
        if len(data) < self.least_bytes:
            return None
        if len(data) > 2 * _SAMPLE:
            middle = len(data) // 2
            if len(zlib.compress(data[middle : middle + _SAMPLE], self.level)) > self.worth * _SAMPLE:
                return None
        compressed = zlib.compress(data, self.level)
        return compressed if len(compressed) <= self.worth * len(data) else None
