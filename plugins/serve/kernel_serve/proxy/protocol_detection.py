"""Detect the protocol of a client's connection, by its first bytes or by TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from kernel_serve.proxy.extra_protocols import ClientConnection, ExtraProtocol
from kernel_serve.proxy.server_state import ServerState
from kernel_serve.proxy.transports import hand_over, has_unread


class ProtocolDetection(asyncio.Protocol):
    """Has a connection until its protocol is known, and then hands it over.

    `http1` returns the handler, unless the connection begins as one of the `others`.
    """

    def __init__(
        self, state: ServerState, http1: Callable[[], asyncio.Protocol], others: Sequence[ExtraProtocol]
    ) -> None:
        self._state = state
        self._http1 = http1
        self._others = others
        self._first = b""
        self.transport: asyncio.Transport
        self.deadline = state.now() + state.options.header_timeout_s
        """The time (of the server) at which this connection is closed if it is still silent. The server checks it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self.transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)
        tls = transport.get_extra_info("ssl_object")
        agreed = None if tls is None else tls.selected_alpn_protocol()
        for other in self._others:
            if other.alpn == agreed:
                self._become(other.connection(self._state))
                return

    def connection_lost(self, error: Exception | None) -> None:
        """End: the client has gone."""
        self._state.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        first = self._first = self._first + data
        for other in self._others:
            if first.startswith(other.preface):
                self._become(other.connection(self._state))
                return
        if not any(other.preface.startswith(first) for other in self._others):
            self._become(self._http1())

    def expire(self) -> None:
        """Close the connection: the client was silent for too long."""
        self.transport.close()

    def finish(self) -> None:
        """Close the connection, unless bytes are coming in."""
        if not self._first and not has_unread(self.transport):
            self.transport.close()

    def _become(self, protocol: asyncio.Protocol | ClientConnection) -> None:
        self._state.connections.discard(self)
        hand_over(self.transport, protocol, self._first)
