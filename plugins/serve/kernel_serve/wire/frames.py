"""The frames of a link: a header of fixed size, then the meta (marshalled), then the body.

Only processes of one user and one session speak this (see `unix.py` and `tunnel.py`), all with the same Python. So
marshal may be used, which is quick but trusts its input.
"""

from __future__ import annotations

import marshal
import struct
from collections.abc import Iterator
from typing import Any

from kernel_serve.errors import ServeError

OPEN, DATA, ABORT, CREDIT, NOTICE = range(1, 6)
END = 1
"""Flag of the last frame of its sender's direction of an exchange."""

_HEADER = struct.Struct(">IBBHII")
HEADER_SIZE = _HEADER.size
LARGEST_FRAME = 64 << 20
_SPACE, _MOST_KEPT = 64 << 10, 2 << 20
"""The sizes in bytes of a decoder's first buffer, and of the largest that is kept when it is empty."""
_NO_META = marshal.dumps(None)

Frame = tuple[int, int, int, int, Any, bytes]
"""Kind, flags, load of the sender, number of the exchange, meta, body."""


class FrameError(ServeError):
    """The bytes of a link are not what a router or a replica would send."""


def encode(kind: int, flags: int, load: int, number: int, meta: Any, body: bytes = b"") -> bytes:
    """Return a frame as bytes. `meta` is a value that marshal takes; `load` is up to 65,535."""
    return head(kind, flags, load, number, meta, len(body)) + body


def head(kind: int, flags: int, load: int, number: int, meta: Any, size: int) -> bytes:
    """Return a frame without its body, which has `size` bytes and follows."""
    said = _NO_META if meta is None else marshal.dumps(meta)
    return _HEADER.pack(len(said) + size, kind, flags, min(load, 0xFFFF), number, len(said)) + said


class Decoder:
    """Decodes frames from bytes as they come.

    Bytes are written into `space`, and `filled` is called with their number: so a socket reads them to where they stay
    until their frame is complete. `feed` does both for bytes that are elsewhere.
    """

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(_SPACE))
        self._begin = self._end = 0

    @property
    def space(self) -> memoryview:
        """The memory for the next bytes."""
        return self._buffer[self._end :] if self._end else self._buffer

    def filled(self, size: int) -> Iterator[Frame]:
        """Return the frames that are complete with `size` bytes more.

        Raises FrameError for bytes that can't be a frame.
        """
        self._end += size
        needed = HEADER_SIZE
        while (there := self._end - self._begin) >= HEADER_SIZE:
            buffer, at = self._buffer, self._begin
            length, kind, flags, load, number, meta_length = _HEADER.unpack_from(buffer, at)
            if length > LARGEST_FRAME or meta_length > length:
                raise FrameError(f"a frame of {length:,} bytes, {meta_length:,} of them meta, can't be right")
            needed = HEADER_SIZE + length
            if there < needed:
                break
            meta_at, end = at + HEADER_SIZE, at + needed
            body_at = meta_at + meta_length
            self._begin = end  # the caller may bring more bytes before it asks for the next frame
            yield kind, flags, load, number, marshal.loads(buffer[meta_at:body_at]), bytes(buffer[body_at:end])
            needed = HEADER_SIZE
        if self._begin == self._end:
            self._begin = self._end = 0
            if len(self._buffer) > _MOST_KEPT:
                self._buffer = memoryview(bytearray(_SPACE))
        else:
            self._make_room(needed)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Return the frames that are complete with `data`. Raises FrameError for bytes that can't be a frame."""
        rest = memoryview(data)
        while rest:
            space = self.space
            size = min(len(space), len(rest))
            space[:size] = rest[:size]
            rest = rest[size:]
            yield from self.filled(size)

    def _make_room(self, needed: int) -> None:
        """Make room behind the bytes that are left, which belong to a frame of at least `needed` bytes."""
        begin, end, size = self._begin, self._end, len(self._buffer)
        if begin + needed > size or end == size:
            left = self._buffer[begin:end]
            if needed >= size:
                self._buffer = memoryview(bytearray(2 * needed))
            self._buffer[: end - begin] = left
            self._begin, self._end = 0, end - begin
