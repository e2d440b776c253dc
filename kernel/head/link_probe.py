"""Agents whose link to the head broke: have they ended instead?

Of a process that is killed while it has something to read, the system resets the sockets, just as a network does that
fails. The agent, which dialled, would dial again if it lives; where its machine says that nobody listens at its gateway
any more, it does not.
"""

from __future__ import annotations

import socket

from kernel.transport.addresses import parse_host_and_port
from kernel.transport.host_connector import HostConnector
from kernel.transport.reactor import Reactor
from kernel.transport.socket_authentication import ConnectFailure
from kernel.transport.tcp_connection import TcpConnection

FIRST_SECONDS, LATER_SECONDS = 0.02, 0.25
"""How soon after a cut a gateway is dialled, and how often then: the sockets of a process are not closed at once."""
ANSWER_SECONDS = 5.0


class LinkProbe:
    """Hastens the end of `connection`, once it is cut and nobody listens at `gateway` ("HOST:PORT")."""

    def __init__(self, connection: TcpConnection, gateway: str, reactor: Reactor) -> None:
        self._connection = connection
        self._gateway = gateway
        self._reactor = reactor
        connection.on_cut = lambda: self._ask_later(FIRST_SECONDS)

    def _ask_later(self, seconds: float) -> None:
        self._reactor.call_later(seconds, self._ask)

    def _ask(self) -> None:
        if self._connection.fd < 0 and not self._connection.closed:
            host, port = parse_host_and_port(self._gateway)
            HostConnector(host, port, self._reactor, self._answered, self._failed, ANSWER_SECONDS).begin()

    def _answered(self, sock: socket.socket) -> None:
        sock.close()
        self._ask_later(LATER_SECONDS)

    def _failed(self, reason: str, failure: ConnectFailure) -> None:
        if failure is ConnectFailure.CLOSED:
            self._connection.hasten(f"nobody listens at {self._gateway} any more")
        else:
            self._ask_later(LATER_SECONDS)
