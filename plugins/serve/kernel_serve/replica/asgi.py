"""HTTP requests and WebSockets over an exchange, as an ASGI application gets them.

An exchange of type "http" opens with the scope; its answer begins with ("start", status, headers) beside the first
piece of the body. One of type "websocket" carries ASGI's own events both ways.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from kernel_serve.errors import DeploymentError, ServeError
from kernel_serve.wire.link import PIECE, Exchange

Message = MutableMapping[str, Any]
Application = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


class HTTPExchange:
    """`receive` and `send` of one HTTP request."""

    __slots__ = ("_body", "_body_over", "_end", "_exchange", "_start", "over", "started", "status")

    def __init__(self, exchange: Exchange, body: bytes, end: bool) -> None:
        self._exchange = exchange
        self._body: bytes | None = body
        self._end = end
        self._body_over = False
        self._start: tuple[Any, ...] | None = None
        self.started = False
        """Whether a part of the answer is sent."""
        self.over = False
        """Whether all of the answer is sent."""
        self.status = 0

    async def receive(self) -> Message:
        """Return a piece of the body; after the last one, wait until the client has gone, and return that event."""
        if self._body is not None:
            body, self._body = self._body, None
            self._body_over = self._end
            return {"type": "http.request", "body": body, "more_body": not self._end}
        try:
            _, body, end = await self._exchange.receive()
        except ServeError:
            return {"type": "http.disconnect"}
        self._body_over = end
        return {"type": "http.request", "body": body, "more_body": not end}

    async def send(self, message: Message) -> None:
        """Send the begin of the answer with the first piece of its body, or a later piece.

        If no piece follows at once, as in a stream that waits for its first item, the begin is sent alone.
        """
        kind = message["type"]
        if kind == "http.response.start":
            headers = checked_headers(message.get("headers", ()))
            self.status = int(message["status"])
            self._start = ("start", self.status, headers)
            if not any(name == b"content-length" for name, _ in headers):
                asyncio.get_running_loop().call_soon(self._send_start)
            return
        if kind != "http.response.body":
            return
        if self.over:
            return
        if self._start is None and not self.started:
            raise DeploymentError("the application sent a body before http.response.start")
        start, self._start = self._start, None
        self.started = True
        self.over = not message.get("more_body", False)
        try:
            await self._exchange.send_all(start, bytes(message.get("body", b"")), self.over)
        except ServeError as error:
            raise OSError("the client is gone") from error

    def _send_start(self) -> None:
        if self._start is not None:
            self._exchange.send(self._start)
            self._start = None
            self.started = True

    def break_off(self) -> None:
        """End an answer that has begun, so that the client sees that it is cut short."""
        self._exchange.abort({"reason": "the deployment failed while it answered"})


class WebSocketExchange:
    """`receive` and `send` of one WebSocket."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._connected = False
        self._answered = False
        self._over = False

    async def receive(self) -> Message:
        """Return the next event of the client."""
        if not self._connected:
            self._connected = True
            return {"type": "websocket.connect"}
        if self._over:
            return {"type": "websocket.disconnect", "code": 1005}
        try:
            message, self._over = await receive_message(self._exchange)
        except ServeError:
            self._over = True
            message = None
        return message or {"type": "websocket.disconnect", "code": 1006}

    async def send(self, message: Message) -> None:
        """Send an event to the client. Raises OSError for a message when the client has gone, as ASGI requires."""
        kind = message["type"]
        if kind == "websocket.send" and self._exchange.other_ended:
            raise OSError("the client is gone")
        meta, body = to_wire(message)
        self._answered = True
        over = kind == "websocket.close" or (kind == "websocket.http.response.body" and not message.get("more_body"))
        try:
            await self._exchange.send_all(meta, body, over)
        except ServeError as error:
            raise OSError("the client is gone") from error

    async def fail(self, text: str) -> None:
        """End the WebSocket, because the application failed: by HTTP, if it was neither accepted nor refused."""
        if self._answered:
            await self.send({"type": "websocket.close", "code": 1011})
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        await self.send({"type": "websocket.http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "websocket.http.response.body", "body": text.encode()})


def to_wire(message: Message) -> tuple[Any, bytes]:
    """Return an ASGI event of a WebSocket as the meta and body of an exchange's event."""
    meta = {name: value for name, value in message.items() if name not in _BODIES and value is not None}
    if "headers" in meta:
        meta["headers"] = checked_headers(meta["headers"])
    for name in ("code", "status"):
        if name in meta:
            meta[name] = int(meta[name])
    for name in _BODIES:
        body = message.get(name)
        if body is not None:
            body = body.encode() if name == "text" else bytes(body)
            meta["body_is"] = name
            if len(body) > PIECE:
                meta["size"] = len(body)
            return meta, body
    return meta, b""


async def receive_message(exchange: Exchange) -> tuple[Message | None, bool]:
    """Return the next ASGI event from `to_wire`, and whether it is the last; None for an end without an event."""
    meta, body, end = await exchange.receive()
    if meta is None:
        return None, end
    size = meta.pop("size", 0)
    if size:
        pieces, there = [body], len(body)
        while there < size:
            _, body, end = await exchange.receive()
            pieces.append(body)
            there += len(body)
        body = b"".join(pieces)
    return from_wire(meta, body), end


def from_wire(meta: dict[str, Any], body: bytes) -> Message:
    """Undo `to_wire`."""
    message = dict(meta)
    name = message.pop("body_is", None)
    if name is not None:
        message[name] = body.decode() if name == "text" else body
    return message


def checked_headers(given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return an answer's headers. Raises DeploymentError for one that HTTP can't have, or that would be two (RFC 9110).

    Software that reads it might take a NUL for its end, and a line break for the begin of another header.
    """
    headers = [(bytes(name), bytes(value)) for name, value in given]
    names, values = zip(*headers, strict=True) if headers else ((), ())
    if not all(names) or _NOT_IN_NAMES.search(b"".join(names)) or _NOT_IN_VALUES.search(b"".join(values)):
        for name, value in headers:
            _check_header(name, value)
    return headers


def _check_header(name: bytes, value: bytes) -> None:
    text, said = name.decode("latin-1"), value.decode("latin-1")
    if not name or _NOT_IN_NAMES.search(name):
        raise DeploymentError(
            f"an answer has a header of the name {text!r}: a name is made of letters, digits and !#$%&'*+-.^_`|~"
        )
    if _NOT_IN_VALUES.search(value):
        what = "a NUL" if "\0" in said else "a line break"
        raise DeploymentError(
            f"the header {text} of an answer has {what} in its value, which HTTP can't have: {said[:_SHOWN]!r}; take "
            "it out, or encode the value (urllib.parse.quote)"
        )


_NOT_IN_NAMES = re.compile(rb"[^!#$%&'*+\-.^_`|~0-9A-Za-z]")
_NOT_IN_VALUES = re.compile(rb"[\0\r\n]")
_SHOWN = 100
"""The number of characters of a bad value that a message shows."""
_BODIES = ("text", "bytes", "body")
