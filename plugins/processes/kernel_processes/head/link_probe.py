"""Find out whether an agent whose link to the head broke has ended.

When a process is killed that has unread data, the system resets its sockets, exactly as a failing network does. An
agent that lives dials the head again. An agent whose machine reports that nothing listens at its gateway has ended.
"""

from __future__ import annotations

import socket

from kernel_processes.transport.addresses import parse_host_and_port
from kernel_processes.transport.host_connector import HostConnector
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.socket_authentication import ConnectFailure
from kernel_processes.transport.tcp_connection import TcpConnection

FIRST_SECONDS, LATER_SECONDS = 0.02, 0.25
"""Seconds from a cut to the first dial of the gateway, and between later ones: sockets are not closed at once."""
ANSWER_SECONDS = 5.0


class LinkProbe:
    """End `connection` sooner, once it is cut and nothing listens at `gateway` ("HOST:PORT") any more."""

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
