"""Connect a process with those of other nodes: it dials their gateways, and takes sockets that its own has accepted."""

from __future__ import annotations

from collections.abc import Callable

from kernel_engine.messages.named_messages import Message
from kernel_network_tcp.transport.connect import connect
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.incoming import IncomingConnections
from kernel_network_tcp.transport.tcp_connection import TcpConnection
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor


class TcpProcessNetwork:
    """Implements `kernel_spec.networks.ProcessNetwork`."""

    def __init__(self, token: bytes, tls: Credentials | None, reactor: Reactor) -> None:
        self._token = token
        self._tls = tls
        self._reactor = reactor

    def connect(
        self,
        address: str,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
    ) -> TcpConnection:
        """Return a connection to `tcp://HOST:PORT/TARGET`, which is dialled in the loop."""
        return connect(address, self._token, self._reactor, on_messages, on_close, self._tls)

    def receive(
        self,
        on_messages: Callable[[Connection, list[Message]], None],
        on_close: Callable[[Connection, str], None],
        on_refused: Callable[[str], None],
    ) -> IncomingConnections:
        """Return what makes connections of the sockets that this node's gateway has accepted for this process."""
        return IncomingConnections(self._token, self._tls, self._reactor, on_messages, on_close, on_refused)
