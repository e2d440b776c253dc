"""Accept connections that others open over TCP: new ones, and those that resume after a cut."""

from __future__ import annotations

import socket
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from kernel_engine.messages.named_messages import Message
from kernel_network_tcp.transport import control_frames as words
from kernel_network_tcp.transport.admissions import Admissions
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.tcp_connection import RESUME_SECONDS, TcpConnection
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor

_MOST_FORGOTTEN = 10_000


class IncomingConnections:
    """Makes connections of adopted sockets, for one target; the counterpart of `connect` over TCP."""

    def __init__(
        self,
        token: bytes,
        tls: Credentials | None,
        reactor: Reactor,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        on_refused: Callable[[str], None],
        resume_seconds: float = RESUME_SECONDS,
    ) -> None:
        self._reactor = reactor
        self._on_messages = on_messages
        self._on_close = on_close
        self._on_refused = on_refused
        self._resume_seconds = resume_seconds
        self._silent: set[Connection] = set()  # Admitted sockets without a message so far.
        self._known: dict[bytes, TcpConnection] = {}
        self._forgotten: OrderedDict[bytes, None] = OrderedDict()
        self._admissions = Admissions(token, tls, reactor, self._welcome, on_refused, words.GREETING_BYTES)
        self.adopt = self._admissions.adopt

    def close(self) -> None:
        """Close the connections that have not sent anything yet."""
        self._admissions.close()
        for connection in list(self._silent):
            connection.close("shutting down")

    def abandon(self) -> None:
        """Let go of the sockets in a forked child."""
        self._admissions.abandon()
        for connection in self._silent:
            connection.abandon()

    def _welcome(self, sock: socket.socket, rest: bytes) -> None:
        greeting = words.Greeting.unpack(rest)
        connection = self._known.get(greeting.connection)
        if connection is None:
            if not greeting.fresh or greeting.connection in self._forgotten:
                with suppress(OSError):  # So few bytes always fit.
                    sock.send(words.CONTROL.pack(words.FORGOTTEN, 0))
                sock.close()
                return
            connection = self._new(greeting)
        connection.attach(sock, greeting.received, rest[words.GREETING_BYTES :])

    def _new(self, greeting: words.Greeting) -> TcpConnection:
        name = greeting.connection
        connection = TcpConnection(self._reactor, self._first_messages, self._closed, self._resume_seconds, True)
        if greeting.relayed:
            connection.allow_for_relay()
        connection.on_end = lambda: self._forget(name)
        self._silent.add(connection)
        self._known[name] = connection
        return connection

    def _forget(self, name: bytes) -> None:
        """Remember that an ended connection existed: messages that it sent must not be handled again."""
        del self._known[name]
        self._forgotten[name] = None
        if len(self._forgotten) > _MOST_FORGOTTEN:
            self._forgotten.popitem(last=False)

    def _first_messages(self, connection: Connection, messages: list[Message]) -> None:
        self._silent.discard(connection)
        connection.on_messages = self._on_messages
        connection.on_close = self._on_close
        self._on_messages(connection, messages)

    def _closed(self, connection: Connection, reason: str) -> None:
        self._silent.discard(connection)
        self._on_refused(reason)
