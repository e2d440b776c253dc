"""Frame answers as HTTP/1.1 has them on the wire."""

from __future__ import annotations

import http
import time
from email.utils import formatdate

_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus if status >= 200
}
_NO_BODY = frozenset((204, 304))
_OURS = frozenset((b"connection", b"transfer-encoding", b"keep-alive", b"date"))
"""Headers of the connection with the client: the proxy sets them, and drops those of replicas."""
BROKEN = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
"""The answer in place of one that would not be HTTP."""

LENGTH, CHUNKED, CLOSE, NONE = range(4)
"""Framings of a body: by its content-length, by chunks, by the end of the connection, or no body at all."""

Headers = list[tuple[bytes, bytes]]


class Clock:
    """Makes the date header, once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        """Return the header's line, with the line break."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._line = b"date: " + formatdate(second, usegmt=True).encode() + b"\r\n"
        return self._line


def head(
    status: int, headers: Headers, method: str, version: str, keep_alive: bool, whole: bool, size: int, date: bytes
) -> tuple[bytes, int, bool, int]:
    """Return the head of an answer, and how its body is framed.

    The result is the head, the kind of framing, whether the connection stays open, and how many bytes of a body of kind
    LENGTH are to follow `size`. `whole`: the body, of `size` bytes, is complete. The head is BROKEN for a header that
    would end early or begin another one, a length that is not the body's, and a status that ends no request.
    """
    line = _LINES.get(status)
    if line is None:
        if not 200 <= status <= 999:
            return BROKEN, NONE, False, 0
        line = b"HTTP/1.1 %d Unknown\r\n" % status
    lines = [line, date]
    length = -1
    for name, value in headers:
        lowered = name.lower()
        if lowered in _OURS:
            if lowered == b"connection" and value.lower() == b"close":
                keep_alive = False
            continue
        if lowered == b"content-length":
            if status == 204:
                continue
            if length >= 0 or not value.isdigit():
                return BROKEN, NONE, False, 0
            length = int(value)
        lines.append(b"%b: %b\r\n" % (name, value))
    if status in _NO_BODY or method == "HEAD":
        kind = NONE
    elif length >= 0:
        kind = LENGTH
        if length < size or (whole and length != size):
            return BROKEN, NONE, False, 0
    elif whole:
        kind = LENGTH
        lines.append(b"content-length: %d\r\n" % size)
    elif version == "1.1":
        kind = CHUNKED
        lines.append(b"transfer-encoding: chunked\r\n")
    else:
        kind = CLOSE
        keep_alive = False
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    elif version == "1.0":
        lines.append(b"connection: keep-alive\r\n")
    block = b"".join(lines)
    if block.count(b"\n") != len(lines) or block.count(b"\r") != len(lines) or b"\0" in block:
        return BROKEN, NONE, False, 0
    return block + b"\r\n", kind, keep_alive, length - size


def piece(body: bytes, kind: int, end: bool) -> bytes:
    """Return a piece of a body as it is on the wire."""
    if kind == NONE:
        return b""
    if kind != CHUNKED:
        return body
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return chunk + b"0\r\n\r\n" if end else chunk
