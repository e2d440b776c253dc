"""Make connections from accepted sockets. A peer without the token is logged and disconnected."""

from __future__ import annotations

import socket
from collections.abc import Callable

from kernel_engine.messages.named_messages import Message
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor

HANDSHAKE_SECONDS = 5.0
"""Seconds for a peer to prove the token; after that it is disconnected."""
_MAXIMUM_STRANGERS = 256


class AcceptedConnections:
    """Passes on connections that have proved the token, with their first messages.

    Each ends with its socket. `on_refused(reason)` is called for a peer that has sent no message.
    """

    def __init__(
        self,
        token: bytes,
        reactor: Reactor,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self._token = token
        self._reactor = reactor
        self._on_messages = on_messages
        self._on_close = on_close
        self._on_refused = on_refused
        self._silent: set[Connection] = set()  # Connections that are accepted and have sent no message yet.

    def adopt(self, sock: socket.socket) -> None:
        """Take a socket from which nothing has been read that the handshake needs."""
        if sum(not connection.authenticated for connection in self._silent) >= _MAXIMUM_STRANGERS:
            sock.close()
            self._on_refused("too many connections at once that did not prove the session token")
            return
        handshake = Handshake(self._token, server=True)
        connection = Connection(sock, self._reactor, handshake, self._first_messages, self._closed)
        self._silent.add(connection)
        self._reactor.call_later(HANDSHAKE_SECONDS, lambda: self._expire(connection))

    def close(self) -> None:
        """Close the connections that have not sent anything yet."""
        for connection in list(self._silent):
            connection.close("shutting down")

    def abandon(self) -> None:
        """Close the sockets in a forked child; the parent goes on."""
        for connection in self._silent:
            connection.abandon()

    def _first_messages(self, connection: Connection, messages: list[Message]) -> None:
        self._silent.discard(connection)
        connection.on_messages = self._on_messages
        connection.on_close = self._on_close
        self._on_messages(connection, messages)

    def _expire(self, connection: Connection) -> None:
        if not connection.authenticated and not connection.closed:
            connection.close("the peer did not prove the session token in time")

    def _closed(self, connection: Connection, reason: str) -> None:
        self._silent.discard(connection)
        self._on_refused(reason)
