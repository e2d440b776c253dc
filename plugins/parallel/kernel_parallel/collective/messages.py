"""Messages between two members: a header, then the bytes of an array.

The header lets members notice that they disagree, before one of them reads the other's bytes as something else.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from kernel_parallel.collective.errors import MismatchError
from kernel_spec.dataclass import dataclass

HEADER = struct.Struct("!BxxxI8sQ")
PIECE_BYTES = 256 << 10
"""Bytes that are reduced at once: few enough to stay in the processor's cache."""

KINDS = ("allreduce", "reduce", "broadcast", "allgather", "reducescatter", "send", "barrier")
_SENT_AS = {"recv": "send"}


@dataclass(frozen=True, slots=True)
class Tag:
    """The operation that a message belongs to: its kind and its number in the group (or between two, for send)."""

    kind: str
    number: int

    def header(self, data: np.ndarray[Any, Any]) -> bytes:
        """Return the header of a message with this array."""
        kind = KINDS.index(_SENT_AS.get(self.kind, self.kind))
        return HEADER.pack(kind, self.number & 0xFFFFFFFF, data.dtype.str.encode()[:8], data.nbytes)


class Outgoing:
    """A message on its way out of a socket."""

    def __init__(self, peer: int, link: socket.socket, tag: Tag, data: np.ndarray[Any, Any]) -> None:
        self.peer = peer
        self.link = link
        self._parts = [memoryview(tag.header(data)), *([view_of(data)] if data.nbytes else [])]

    def advance(self) -> bool:
        """Send what the socket takes; return whether anything was sent. Raises OSError when the peer is gone."""
        moved = False
        while self._parts:
            try:
                sent = self.link.sendmsg(self._parts)
            except (BlockingIOError, InterruptedError):
                break
            moved = True
            while self._parts and sent >= len(self._parts[0]):
                sent -= len(self._parts.pop(0))
            if sent:
                self._parts[0] = self._parts[0][sent:]
        return moved

    @property
    def done(self) -> bool:
        """Whether all of it was sent."""
        return not self._parts


class IncomingMessage:
    """A message on its way into an array, or to be joined with what is in the array by `function`."""

    def __init__(
        self,
        peer: int,
        link: socket.socket,
        tag: Tag,
        into: np.ndarray[Any, Any],
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.peer = peer
        self.link = link
        self._tag = tag
        self._into = into
        self._function = function
        self._header = bytearray(HEADER.size)
        self._window = memoryview(self._header)
        self._begin = -1
        self._scratch = _scratch_for(into) if function is not None and into.size else None
        self.done = False

    def advance(self) -> bool:
        """Take what the socket has; return whether there was anything.

        Raises EOFError when the peer closed, MismatchError when it sent something else than is expected.
        """
        moved = False
        while not self.done:
            try:
                count = self.link.recv_into(self._window)
            except (BlockingIOError, InterruptedError):
                break
            if count == 0:
                raise EOFError
            moved = True
            self._window = self._window[count:]
            if not self._window:
                self._next()
        return moved

    def _next(self) -> None:
        """Go on to the next part: of the header, the array, or a piece of it."""
        if self._begin < 0:
            self._check()
            self._begin = 0
        elif self._scratch is None:
            self._begin = self._into.size
        else:
            assert self._function is not None
            piece = self._into[self._begin : self._begin + len(self._scratch)]
            self._function(piece, self._scratch[: len(piece)], out=piece)
            self._begin += len(piece)
        if self._begin >= self._into.size:
            self.done = True
        elif self._scratch is None:
            self._window = view_of(self._into)
        else:
            self._window = view_of(self._scratch[: self._into.size - self._begin])

    def _check(self) -> None:
        kind, number, dtype, size = HEADER.unpack(self._header)
        expected = self._tag.header(self._into)
        if bytes(self._header) == expected:
            return
        mine = f"{self._tag.kind} number {self._tag.number} of {self._into.nbytes} bytes of {self._into.dtype.str}"
        other = f"{KINDS[kind]} number {number} of {size} bytes of {dtype.rstrip(bytes(1)).decode()}"
        raise MismatchError(
            f"rank {self.peer} is at another operation: it sent {other}, where {mine} was expected; all members call "
            "the same operations in the same order, with arrays of one size and type"
        )


def view_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of a contiguous array, without a copy."""
    data: Any = array.view(np.uint8)
    return memoryview(data)


def _scratch_for(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.empty(max(1, min(array.size, PIECE_BYTES // array.itemsize)), array.dtype)
