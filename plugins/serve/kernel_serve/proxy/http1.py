"""One client's HTTP/1.1 connection: its requests and their answers, in order, within time limits.

`http1_reader.py` reads requests, `http1_writer.py` writes answers. A request waits until those before it are answered;
while one waits, or a replica or the client is slow, nothing more is read or sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from kernel_serve.proxy.http1_reader import RefusedError, RequestReader
from kernel_serve.proxy.http1_request import HTTP1Request, address_of
from kernel_serve.proxy.http1_writer import AnswerWriter, Headers, WrongLengthError
from kernel_serve.proxy.other_protocols import begin_websocket
from kernel_serve.proxy.server_state import ServerState
from kernel_serve.proxy.transports import has_unread

_WHOLE_BODY = 256 << 10
"""The largest body in bytes that is read before its request is sent on: such a request can be sent again."""
_MOST_WAITING = 16
_FOREVER = float("inf")
_LINGER_SECONDS = 2.0
"""Seconds in which a client that still sends may read its answer, before the connection is reset."""


class HTTP1Connection(asyncio.Protocol):
    """Takes requests from one client. It is also the `ResponseWriter` of the request that is being answered.

    `websocket` returns the protocol that gets the connection when it becomes a WebSocket.
    """

    def __init__(self, state: ServerState, websocket: Callable[[], Any]) -> None:
        self._state = state
        self._websocket = websocket
        self._reader: RequestReader
        self._writer: AnswerWriter
        self._answering: HTTP1Request | None = None
        self._waiting: deque[HTTP1Request] = deque()
        self._turning = False
        self._deaf = False
        """Whether further bytes of the client are ignored."""
        self._holds: set[str] = set()
        self.transport: asyncio.Transport
        self.must_wait = False
        self._deadline = self._stalled = _FOREVER
        """The times (of the server) by which the client must have sent, and have taken, something."""
        self._unsent = 0

    @property
    def deadline(self) -> float:
        """The time (of the server) at which this connection is closed if it still waits for the client.

        The server checks it.
        """
        return self._stalled if self.must_wait else self._deadline

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered or read."""
        return self._answering is None and self._reader.arriving is None and not self._reader.head_bytes

    # -- the connection --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        transport = self.transport = cast(asyncio.Transport, transport)
        tls = transport.get_extra_info("ssl_object")
        client, here = (address_of(transport.get_extra_info(name)) for name in ("peername", "sockname"))
        self._reader = RequestReader(self, self._state.options, "http" if tls is None else "https", client, here)
        self._writer = AnswerWriter(transport.write, self._state.clock)
        self._state.connections.add(self)
        self._deadline = self._state.now() + self._state.options.header_timeout_s

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the requests: the client has gone."""
        self._state.connections.discard(self)
        self._reader.close()
        answering, self._answering = self._answering, None
        self._waiting.clear()
        if answering is not None and answering.proxied is not None:
            answering.proxied.gone()

    def pause_writing(self) -> None:
        """Hold the answer back: the client is slow."""
        self.must_wait = True
        self._stalled = self._state.now() + self._state.options.stall_timeout_s
        self._unsent = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        """Send more of the answer: the client takes more."""
        self.must_wait = False
        if self._answering is not None:
            if self._answering.proxied is not None:
                self._answering.proxied.resume()
        elif self._deaf:
            self._deadline = self._state.now() + self._state.options.stall_timeout_s
        else:
            self._deadline = self._state.now() + self._state.options.keep_alive_timeout_s
            self._next()

    def eof_received(self) -> None:
        """Treat a half-closed connection as closed: it is how most disconnects show."""

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self._deaf:
            return
        reader = self._reader
        try:
            reader.feed(data)
        except RefusedError as refused:
            self.refuse(refused.status, str(refused))
            return
        if reader.arriving is not None:
            if not self._holds and not self._deaf:
                self._deadline = self._state.now() + self._state.options.stall_timeout_s
        elif reader.head_bytes == len(data) and self._answering is None:  # a head has begun
            self._deadline = self._state.now() + self._state.options.header_timeout_s

    # -- requests from the reader ----------------------------------------------------------------------------------

    def take(self, incoming: HTTP1Request) -> None:
        """See `Taker`."""
        if self._deaf:
            return
        self._deadline = _FOREVER
        if self._answering is None and not self.must_wait:
            self._answer(incoming)
        else:
            self._waiting.append(incoming)
            if len(self._waiting) >= _MOST_WAITING:
                self._hold("pipeline", True)

    def take_body(self, incoming: HTTP1Request, body: bytes) -> None:
        """See `Taker`."""
        if self._deaf:
            return
        incoming.size += len(body)
        if incoming.proxied is not None:
            incoming.proxied.feed(body, False)
            return
        incoming.body.append(body)
        if incoming.size >= _WHOLE_BODY:
            if incoming is self._answering:
                self._begin(incoming)
            else:
                self._hold("pipeline", True)

    def take_end(self, incoming: HTTP1Request) -> None:
        """See `Taker`."""
        if self._deaf:
            return
        incoming.complete = True
        self._deadline = _FOREVER
        if incoming.proxied is not None:
            incoming.proxied.feed(b"", True)
        elif incoming is self._answering:
            self._begin(incoming)

    def take_websocket(self, incoming: HTTP1Request, data: bytes) -> None:
        """See `Taker`."""
        if self._answering is not None:
            raise RefusedError(400, "a WebSocket can begin when all earlier requests of its connection are answered")
        self._state.connections.discard(self)
        try:
            begin_websocket(self.transport, self._websocket(), data)
        except ValueError as error:
            self._state.connections.add(self)
            raise RefusedError(400, f"this is not the beginning of a WebSocket: {error}") from error

    # -- answering -------------------------------------------------------------------------------------------------

    def _answer(self, incoming: HTTP1Request) -> None:
        """Begin to answer this request."""
        self._answering = incoming
        self._writer.keep_alive = incoming.keep_alive
        if incoming.too_large:
            self.refuse(413, f"the body is larger than {self._state.options.maximum_body_bytes:,} bytes")
            return
        if incoming.expects and not incoming.complete:
            self._writer.ask_on()
        if incoming.complete or incoming.size >= _WHOLE_BODY:
            self._begin(incoming)

    def _begin(self, incoming: HTTP1Request) -> None:
        body = incoming.body[0] if len(incoming.body) == 1 else b"".join(incoming.body)
        incoming.body.clear()
        incoming.proxied = self._state.make_request(incoming.scope, self)
        incoming.proxied.begin(body, incoming.complete)

    def begin(self, status: int, headers: Headers, body: bytes, end: bool) -> None:
        """See `ResponseWriter`."""
        incoming = self._answering
        if incoming is None:
            return
        if not incoming.complete or self._state.closing:
            self._writer.keep_alive = False
        if self._writer.begin(incoming.scope, status, headers, body, end):
            if not end:
                incoming.proxied.gone()
            self._answered()

    def go_on(self, body: bytes, end: bool) -> None:
        """See `ResponseWriter`."""
        if self._answering is None:
            return
        try:
            self._writer.go_on(body, end)
        except WrongLengthError:
            self._answering.proxied.gone()
            self.break_off()
            return
        if end:
            self._answered()

    def break_off(self) -> None:
        """See `ResponseWriter`."""
        self._answering = None
        if self._writer.shows_its_end:
            self._close()
        else:
            self.transport.abort()

    def hold(self, wait: bool) -> None:
        """See `ResponseWriter`."""
        self._hold("body", wait)

    def _answered(self) -> None:
        self._answering = None
        if not self._writer.keep_alive:
            self._close()
            return
        if self._holds:
            self._hold("body", False)
        if self._waiting:
            self._next()
        else:
            self._deadline = self._state.now() + self._state.options.keep_alive_timeout_s

    def _next(self) -> None:
        """Begin with the waiting requests, as long as each is answered at once, and the client takes the answers."""
        if self._turning:
            return
        self._turning = True
        try:
            while self._waiting and self._answering is None and not self.must_wait and not self.transport.is_closing():
                following = self._waiting.popleft()
                self._hold("pipeline", len(self._waiting) >= _MOST_WAITING)
                self._answer(following)
        finally:
            self._turning = False

    def _hold(self, why: str, wait: bool) -> None:
        """Stop reading while there is any reason for it. `why` is a reason, and `wait` whether it holds."""
        held = bool(self._holds)
        if wait:
            self._holds.add(why)
        else:
            self._holds.discard(why)
        if held != bool(self._holds) and not self.transport.is_closing():
            if self._holds:
                self.transport.pause_reading()
                self._deadline = _FOREVER
            else:
                self.transport.resume_reading()
                if self._reader.arriving is not None:
                    self._deadline = self._state.now() + self._state.options.stall_timeout_s

    # -- closing ---------------------------------------------------------------------------------------------------

    def refuse(self, status: int, text: str) -> None:
        """Answer, after the requests before it, that the request can't be taken, and close the connection."""
        if self._deaf or self.transport.is_closing():
            return
        self._deaf = True
        self._waiting.clear()
        answering, self._writer.keep_alive = self._answering, False
        if answering is not None and answering.complete:
            self._deadline = _FOREVER  # an answer is still under way
            return
        self._answering = None
        if answering is not None and answering.proxied is not None:
            answering.proxied.gone()
        if self._writer.has_begun:
            self.break_off()
        else:
            headers = answering.scope["headers"] if answering is not None else ()
            self._writer.refuse(status, text, self._state.request_ids.of(headers))
            self._close()

    def _close(self) -> None:
        """Close the connection, after what was written.

        If the client still sends, only the side to it is closed at first: a reset would discard an answer that it has
        not read yet.
        """
        transport, reader = self.transport, self._reader
        sends_on = self._deaf or reader.arriving is not None or bool(self._waiting) or has_unread(transport)
        self._deaf = True
        self._waiting.clear()
        if not sends_on or not transport.can_write_eof():
            transport.close()
            self._deadline = self._state.now() + self._state.options.stall_timeout_s
        elif not transport.is_closing():
            self._holds.clear()
            transport.resume_reading()
            transport.write_eof()
            self._deadline = self._state.now() + _LINGER_SECONDS

    def expire(self) -> None:
        """End what is late: headers, a body, the reading of an answer, or the next request."""
        if self.must_wait:
            unsent, before = self.transport.get_write_buffer_size(), self._unsent
            self._stalled, self._unsent = self._state.now() + self._state.options.stall_timeout_s, unsent
            if unsent >= before:
                self.transport.abort()
        elif self._deaf:
            self.transport.abort()
        elif self._reader.arriving is not None:
            self.refuse(408, "the body did not come in time")
        elif self._reader.head_bytes:
            self.refuse(408, "the headers did not come in time")
        elif self._answering is None:
            self.transport.close()

    def finish(self) -> None:
        """Close the connection; if a request is being answered or read, after that one."""
        if self.is_idle and not has_unread(self.transport):
            self.transport.close()
