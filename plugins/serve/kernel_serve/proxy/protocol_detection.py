"""The beginning of a client's connection: its first bytes, or TLS, say which protocol it speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from kernel_serve.proxy.http2_frames import PREFACE
from kernel_serve.proxy.server_state import ServerState
from kernel_serve.proxy.transports import hand_over, has_unread


class ProtocolDetection(asyncio.Protocol):
    """Has a connection until it is known what it speaks, and then hands it over.

    `http1` and `http2` make the protocol that gets it; `http2` is None where that is not spoken.
    """

    def __init__(
        self,
        state: ServerState,
        http1: Callable[[], asyncio.Protocol],
        http2: Callable[[], asyncio.Protocol] | None,
    ) -> None:
        self._state = state
        self._http1 = http1
        self._http2 = http2
        self._first = b""
        self.transport: asyncio.Transport
        self.deadline = state.now() + state.options.header_timeout_s
        """When this connection is closed if it is still silent (the server's time); the server looks."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)
        tls = transport.get_extra_info("ssl_object")
        if self._http2 is not None and tls is not None and tls.selected_alpn_protocol() == "h2":
            self._become(self._http2())

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self._state.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        first = self._first = self._first + data
        if self._http2 is None or first[: len(PREFACE)] != PREFACE[: len(first)]:
            self._become(self._http1())
        elif len(first) >= len(PREFACE):
            self._become(self._http2())

    def expire(self) -> None:
        """The time in which the client had to say something is over."""
        self.transport.close()

    def finish(self) -> None:
        """Close the connection, unless something comes in."""
        if not self._first and not has_unread(self.transport):
            self.transport.close()

    def _become(self, protocol: asyncio.Protocol) -> None:
        self._state.connections.discard(self)
        hand_over(self.transport, protocol, self._first)
