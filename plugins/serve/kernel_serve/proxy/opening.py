"""The beginning of a client's connection, and how it changes hands: to HTTP/1.1, HTTP/2 or WebSocket."""

from __future__ import annotations

import asyncio
import fcntl
import termios
from typing import TYPE_CHECKING, Any, cast

from kernel_serve.proxy.http2_frames import PREFACE

if TYPE_CHECKING:
    from kernel_serve.proxy.server import HTTPServer


class Opening(asyncio.Protocol):
    """Has a connection until its first bytes, or TLS, say what it speaks."""

    def __init__(self, server: HTTPServer) -> None:
        self._server = server
        self._first = b""
        self.transport: asyncio.Transport
        self.deadline = server.now() + server.options.header_timeout_s
        """When this connection is closed if it is still silent (the server's time); the server looks."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._become(self._server.http2())

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        first = self._first = self._first + data
        if first[: len(PREFACE)] != PREFACE[: len(first)] or not self._server.speaks_http2:
            self._become(self._server.http1())
        elif len(first) >= len(PREFACE):
            self._become(self._server.http2())

    def expire(self) -> None:
        """The time in which the client had to say something is over."""
        self.transport.close()

    def finish(self) -> None:
        """Close the connection, unless something comes in."""
        if not self._first and not has_unread(self.transport):
            self.transport.close()

    def _become(self, protocol: Any) -> None:
        self._server.connections.discard(self)
        hand_over(self.transport, protocol, self._first)


def hand_over(transport: asyncio.Transport, protocol: Any, data: bytes) -> None:
    """Let another protocol have the connection, and what came of it."""
    protocol.connection_made(transport)
    transport.set_protocol(protocol)
    if data:
        protocol.data_received(data)


def has_unread(transport: asyncio.Transport) -> bool:
    """Return whether the client has sent something that was not read yet."""
    connection = transport.get_extra_info("socket")
    try:
        waiting = fcntl.ioctl(connection.fileno(), termios.FIONREAD, b"\0\0\0\0")
    except (AttributeError, OSError):
        return False
    return any(waiting)
