"""Requests of HTTP/1.1 on one connection, read as they come: what a policy server needs of it, and quickly.

The standard library's handler reads headers as those of mails, which costs more than an action. Here a head is at most
`MOST_HEADERS` lines of `LONGEST_LINE` bytes, bodies have a `Content-Length`, and lines that go on in the next one are
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from io import BufferedIOBase
from typing import NamedTuple

LONGEST_LINE = 1 << 16
MOST_HEADERS = 100


class Request(NamedTuple):
    """The head of a request.

    Attributes:
        command: The method, such as "GET".
        target: The path and query that are asked for, such as "/v1/weights?have=3".
        headers: The values of headers, by names in lower case.
        keeps: Whether further requests may follow on the connection.
    """

    command: str
    target: str
    headers: Mapping[str, str]
    keeps: bool

    @property
    def content_type(self) -> str:
        """The kind of the body, without parameters; "" where none is said."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class BadRequestError(Exception):
    """What has come is no request. `status` is what it is answered with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_head(file: BufferedIOBase) -> Request | None:
    """Return the head of the next request; None where the connection has ended.

    Raises:
        BadRequestError: If it is none.
    """
    line = _line(file, 414)
    if not line:
        return None
    words = line.split()
    if len(words) != 3:
        raise BadRequestError(400, f"{line[:80]!r} is no line of a request: it has a method, a path and a version")
    command, target, version = words
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequestError(505, f"the request is of {version[:20]!r}: only HTTP/1.1 is understood")
    headers = read_headers(file)
    keeps = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return Request(command, target, headers, keeps)


def read_headers(file: BufferedIOBase) -> dict[str, str]:
    """Return the headers up to an empty line, by names in lower case; of several with one name, joined with commas.

    Raises:
        BadRequestError: If they are none, or too many.
    """
    headers: dict[str, str] = {}
    for _ in range(MOST_HEADERS + 1):
        line = _line(file, 431)
        if not line:
            return headers
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequestError(400, f"{line[:80]!r} is no header: it has a name, a colon and a value")
        name, value = name.lower(), value.strip()
        headers[name] = value if name not in headers else f"{headers[name]}, {value}"
    raise BadRequestError(431, f"there are more than {MOST_HEADERS} headers")


def _line(file: BufferedIOBase, too_long: int) -> str:
    """Return a line without its end; "" for an empty one, and where there is no more."""
    line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise BadRequestError(too_long, f"a line of the head has more than {LONGEST_LINE} bytes")
    return line.rstrip(b"\r\n").decode("latin-1")


def response(status: int, kind: str, body: bytes | None, *, keeps: bool) -> bytes:
    """Return the bytes of a response.

    Args:
        status: The status.
        kind: The content type of the body.
        body: The body; None where the status has none.
        keeps: Whether further requests may follow.
    """
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nDate: {formatdate(usegmt=True)}\r\n"
    if body is not None:
        head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    if not keeps:
        head += "Connection: close\r\n"
    return f"{head}\r\n".encode("latin-1") + (body or b"")
