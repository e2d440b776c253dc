"""One client's HTTP/2 connection: many requests and their answers at a time, within limits.

The frames are h2's. This module has the requests, the limits, and the flow control: the client sends no more of a
request that is held back, and a request waits for a client that does not take its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame
from kernel_serve.logs import logger
from kernel_serve.proxy.server_state import ServerState

from kernel_serve_http2.frame_lengths import PREFACE, FrameLengths
from kernel_serve_http2.limits import HTTP2Limits
from kernel_serve_http2.stream import (
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Headers,
    HTTP2Stream,
    scope_of,
    too_large,
)

_log = logger()
_FOREVER = float("inf")
_LINGER_SECONDS = 2.0
_TURN = 64 << 10
"""The number of bytes of one answer that are sent before another answer has its turn."""


class HTTP2Connection(asyncio.Protocol):
    """Takes requests from one client. Streams send their answers through it."""

    def __init__(self, state: ServerState, limits: HTTP2Limits) -> None:
        self._state = state
        self._limits = limits
        self._options = state.options
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._lengths = FrameLengths(self._h2.max_inbound_frame_size, len(PREFACE))
        self._streams: dict[int, HTTP2Stream] = {}
        self._blocked: deque[HTTP2Stream] = deque()
        self._paused = False
        self._given_up = 0
        self._closing = False
        self._aborting: asyncio.TimerHandle | None = None
        self._client: tuple[str, int] | None = None
        self._here: tuple[str, int] | None = None
        self._scheme = "http"
        self.transport: asyncio.Transport
        self._deadline = _FOREVER
        """The time (of the server) by which the next request must come."""

    @property
    def deadline(self) -> float:
        """The time (of the server) at which the connection, or a stream, ends if it still waits for the client."""
        return min((stream.deadline for stream in self._streams.values()), default=self._deadline)

    # -- the connection --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the client the settings."""
        self.transport = cast(asyncio.Transport, transport)
        self._client = _address(transport.get_extra_info("peername"))
        self._here = _address(transport.get_extra_info("sockname"))
        self._scheme = "https" if transport.get_extra_info("ssl_object") is not None else "http"
        limits = self._limits
        header_bytes = self._options.maximum_header_bytes
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: limits.streams,
                SettingCodes.INITIAL_WINDOW_SIZE: limits.stream_window,
                SettingCodes.MAX_HEADER_LIST_SIZE: header_bytes,
            },
        )
        self._h2.decoder.max_header_list_size = header_bytes
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(limits.connection_window - self._h2.inbound_flow_control_window)
        self._flush()
        self._deadline = self._state.now() + self._options.header_timeout_s
        self._state.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the requests: the client has gone."""
        self._closing = True
        self._state.connections.discard(self)
        if self._aborting is not None:
            self._aborting.cancel()
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.gone()

    def data_received(self, data: bytes) -> None:
        """Take frames. If the client breaks the protocol, send it the reason, and close the connection."""
        if self._closing and not self._streams:
            return
        try:
            if not self._lengths.fit(data):
                raise ProtocolError("a frame is longer than this side's SETTINGS_MAX_FRAME_SIZE allows")
            events = self._h2.receive_data(data)
        except (H2Error, ValueError, IndexError, KeyError) as error:
            _log.info("a client broke the rules of HTTP/2", client=self._client, error=str(error) or repr(error))
            self._break(PROTOCOL_ERROR)
            return
        for event in events:
            self._on(event)
        self._flush()
        if self._given_up > self._limits.resets or self.transport.get_write_buffer_size() > self._limits.unsent:
            _log.info(
                "closed a connection whose client reset too many requests, or does not read its responses",
                client=self._client,
            )
            self._break(ENHANCE_YOUR_CALM)

    def pause_writing(self) -> None:
        """Hold the answers back: the client is slow."""
        self._paused = True

    def resume_writing(self) -> None:
        """Send more of the answers: the client takes more."""
        self._paused = False
        self._send_blocked()

    def expire(self) -> None:
        """End what is late: a body, the reading of an answer, or the next request."""
        now = self._state.now()
        for stream in [each for each in self._streams.values() if each.deadline < now]:
            stream.expire()
        if self._deadline < now:
            self.finish()

    def finish(self) -> None:
        """Take no new requests; the connection closes when those under way are answered."""
        if not self._closing:
            self._closing = True
            self._deadline = _FOREVER
            # after its GOAWAY h2 itself sends nothing more
            goodbye = GoAwayFrame(0, last_stream_id=self._h2.highest_inbound_stream_id, error_code=NO_ERROR)
            self.transport.write(goodbye.serialize())
        if not self._streams:
            self._close()

    def _break(self, code: int) -> None:
        """End the connection, because the client broke the protocol."""
        with contextlib.suppress(H2Error):
            self._h2.close_connection(code)
        self._flush()
        self._close()

    def _close(self) -> None:
        """Close when all that was written is sent, but soon if the client does not read."""
        self._closing = True
        if self._aborting is None and not self.transport.is_closing():
            self.transport.close()
            self._aborting = asyncio.get_running_loop().call_later(_LINGER_SECONDS, self.transport.abort)

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    # -- frames from the client ------------------------------------------------------------------------------------

    def _on(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._begin(event.stream_id, [(bytes(name), bytes(value)) for name, value in event.headers])
        elif isinstance(event, DataReceived):
            stream = self._streams.get(event.stream_id)
            if stream is not None:
                stream.feed(event.data, event.flow_controlled_length)
            else:
                self.taken(event.stream_id, event.flow_controlled_length)
        elif isinstance(event, StreamEnded):
            if (stream := self._streams.get(event.stream_id)) is not None:
                stream.complete()
        elif isinstance(event, StreamReset):
            if (stream := self._streams.get(event.stream_id)) is not None:
                self._given_up += 1
                stream.gone()
                self.ended(stream)
        elif isinstance(event, (WindowUpdated, RemoteSettingsChanged)):
            self._send_blocked()
        elif isinstance(event, ConnectionTerminated):
            self._close()

    def _begin(self, number: int, headers: Headers) -> None:
        if self._closing:
            self.reset(number, REFUSED_STREAM)
            return
        scope = scope_of(headers, self._options.root_path, self._client, self._here, self._scheme)
        if scope is None:
            self.reset(number, PROTOCOL_ERROR)
            return
        self._deadline = _FOREVER
        stream = self._streams[number] = HTTP2Stream(self, self._state, number, scope)
        for name, value in headers:
            if name == b"content-length" and int(value) > self._options.maximum_body_bytes:
                stream.refuse(413, too_large(self._options))
                return
            if name == b"expect" and value.lower() == b"100-continue":
                with self._unless_gone(stream):
                    self._h2.send_headers(number, [(b":status", b"100")])

    # -- frames of streams -----------------------------------------------------------------------------------------

    def send_head(self, stream: HTTP2Stream, headers: Headers, end: bool) -> None:
        """Send an answer's headers; with `end` the answer has no body."""
        headers.append((b"date", self._state.clock.line()[6:-2]))
        with self._unless_gone(stream):
            self._h2.send_headers(stream.number, headers, end_stream=end)
        self._flush()
        if end and not stream.over:
            self._sent(stream)

    def send_body(self, stream: HTTP2Stream) -> None:
        """Send as much of an answer's body as the client takes; the rest follows later."""
        if stream.must_wait:
            return  # it will have its turn
        while not stream.over and self._send_some(stream):
            pass
        if not stream.over and stream.out:
            stream.must_wait = True
            stream.was_heard()
            self._blocked.append(stream)

    def taken(self, number: int, size: int) -> None:
        """Allow the client to send `size` bytes more, in this stream and in all together."""
        if size:
            with contextlib.suppress(H2Error):
                self._h2.acknowledge_received_data(size, number)
            self._flush()

    def reset(self, number: int, code: int) -> None:
        """Reset a stream with an error code."""
        with contextlib.suppress(H2Error):
            self._h2.reset_stream(number, code)
        self._flush()

    def ended(self, stream: HTTP2Stream) -> None:
        """Forget a stream that is over."""
        if self._streams.pop(stream.number, None) is None or self._streams:
            return
        if self._closing:
            self._close()
        else:
            self._deadline = self._state.now() + self._options.keep_alive_timeout_s

    def _send_some(self, stream: HTTP2Stream) -> bool:
        """Send one turn of a stream's body; return whether there is more to send, and room for it."""
        number, out, sent = stream.number, stream.out, 0
        with self._unless_gone(stream):
            while out and sent < _TURN and not self._paused:
                piece = out[0]
                size = min(len(piece), self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
                if size <= 0:
                    break
                self._h2.send_data(number, bytes(piece[:size]))
                sent += size
                if size == len(piece):
                    out.popleft()
                else:
                    out[0] = piece[size:]
            if not out and stream.answer_over:
                self._h2.end_stream(number)
        self._flush()
        if not stream.over and not out and stream.answer_over:
            self._sent(stream)
        return bool(out) and sent > 0 and not self._paused

    def _sent(self, stream: HTTP2Stream) -> None:
        if self._given_up:
            self._given_up -= 1
        if not stream.body_over:  # the rest of the request is not read (RFC 9113, 8.1)
            self.reset(stream.number, NO_ERROR)
        stream.sent()

    def _send_blocked(self) -> None:
        """Send, in turns, what waits for the client, and resume the requests whose answers are all sent so far."""
        progress = True
        while progress and not self._paused:
            progress = False
            for _ in range(len(self._blocked)):
                stream = self._blocked.popleft()
                if stream.over:
                    continue
                before = len(stream.out), len(stream.out[0])
                self._send_some(stream)
                if stream.out:
                    self._blocked.append(stream)
                    if (len(stream.out), len(stream.out[0])) != before:
                        progress = True
                        stream.was_heard()
                elif not stream.over:
                    stream.must_wait = False
                    stream.was_heard()
                    if stream.proxied is not None:
                        stream.proxied.resume()

    @contextlib.contextmanager
    def _unless_gone(self, stream: HTTP2Stream) -> Any:
        """End a stream instead of raising an error, if the client has closed it or the connection."""
        try:
            yield
        except ProtocolError:
            stream.gone()
            self.ended(stream)


def _address(found: Any) -> tuple[str, int] | None:
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) else None
