"""Write the answers of an HTTP/1.1 connection, one after the other; `framing.py` has their form on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_serve.logs import logger
from kernel_serve.proxy.framing import BROKEN, CHUNKED, LENGTH, Clock, head, piece
from kernel_serve.proxy.request_ids import HEADER as REQUEST_ID

_log = logger()
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NONE_BEGUN = -1
Headers = list[tuple[bytes, bytes]]


class WrongLengthError(Exception):
    """An answer does not have the length of its content-length."""


class AnswerWriter:
    """The writer of one connection; `write` sends bytes."""

    __slots__ = ("_clock", "_kind", "_left", "_path", "_write", "keep_alive")

    def __init__(self, write: Callable[[bytes], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._kind = _NONE_BEGUN
        """The framing of the body of the answer under way."""
        self._left = 0
        """The number of bytes of it that are still to come, by its content-length."""
        self._path = ""
        self.keep_alive = True
        """Whether the connection goes on after the answer under way. Set it before an answer begins."""

    @property
    def has_begun(self) -> bool:
        """Whether an answer is under way."""
        return self._kind != _NONE_BEGUN

    @property
    def shows_its_end(self) -> bool:
        """Whether the client notices if the answer under way is cut short, however the connection ends."""
        return self._kind in (LENGTH, CHUNKED)

    def ask_on(self) -> None:
        """Tell the client to send the body."""
        self._write(_CONTINUE)

    def begin(self, scope: dict[str, Any], status: int, headers: Headers, body: bytes, end: bool) -> bool:
        """Begin the answer to the request with this scope; return whether it is complete.

        An answer that can't be sent is replaced by a complete one.
        """
        start, self._kind, self.keep_alive, self._left = head(
            status, headers, scope["method"], scope["http_version"], self.keep_alive, end, len(body), self._clock.line()
        )
        if start is BROKEN:
            _log.error(
                "an answer is no HTTP: its status, a line break or NUL in a header, or a wrong content-length",
                path=scope["path"], status=status, headers=headers, size=len(body),
            )  # fmt: skip
            id = next((value.decode("latin-1") for name, value in headers if name == REQUEST_ID), "")
            self.refuse(500, f"Internal Server Error (request {id})", id)
            end = True
        else:
            self._write(start + piece(body, self._kind, end))
        if end:
            self._kind = _NONE_BEGUN
        else:
            self._path = scope["path"]
        return end

    def go_on(self, body: bytes, end: bool) -> None:
        """Send another piece.

        Raises WrongLengthError, and sends nothing, if it is too long or, at the end, too short.
        """
        if self._kind == LENGTH:
            self._left -= len(body)
            if self._left < 0 or (end and self._left):
                _log.error("an answer is not as long as its content-length", path=self._path)
                raise WrongLengthError
        data = piece(body, self._kind, end)
        if data:
            self._write(data)
        if end:
            self._kind = _NONE_BEGUN

    def refuse(self, status: int, text: str, id: str) -> None:
        """Answer a request that can't be taken with a text. It is the connection's last answer."""
        body = text.encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (REQUEST_ID, id.encode("latin-1"))]
        start, kind, _, _ = head(status, headers, "GET", "1.1", False, True, len(body), self._clock.line())
        self._write(start + piece(body, kind, True))
