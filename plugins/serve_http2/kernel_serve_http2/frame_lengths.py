"""Check the lengths of HTTP/2's frames, so that the end of a frame that is too long is not waited for."""

from __future__ import annotations

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every connection, before the first frame (RFC 9113, 3.4). They begin no request of HTTP/1."""
_HEADER = 9
"""The number of bytes before a frame's payload; the first three are the payload's length (RFC 9113, 4.1)."""


class FrameLengths:
    """Follows a stream of frames through pieces of any size. The first `skip` bytes of the stream are no frames."""

    __slots__ = ("_head", "_largest", "_left")

    def __init__(self, largest: int, skip: int = 0) -> None:
        self._largest = largest
        self._left = skip
        self._head = b""

    def fit(self, data: bytes) -> bool:
        """Take the next piece; return whether all frames that begin in it are within the limit."""
        if self._head:
            data, self._head = self._head + data, b""
        position, size = self._left, len(data)
        while position + 3 <= size:
            length = int.from_bytes(data[position : position + 3], "big")
            if length > self._largest:
                return False
            position += _HEADER + length
        if position < size:
            self._head, self._left = data[position:], 0
        else:
            self._left = position - size
        return True
