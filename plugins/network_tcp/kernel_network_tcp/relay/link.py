"""Link a remote driver to the relay, so that the cluster reaches a machine that it can't dial."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

from kernel.logs import Logger
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_network_tcp.relay import relay_messages
from kernel_network_tcp.transport.connect import connect
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.host_connector import HostConnector
from kernel_network_tcp.transport.preamble import calling_back
from kernel_network_tcp.transport.tcp_dialler import CONNECT_SECONDS
from kernel_processes.transport.addresses import RELAY, SCHEME, parse_host_and_port
from kernel_processes.transport.connection import Connection, may_be_handled
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import NodeId
from kernel_spec.tls_files import TlsFiles

JOIN_SECONDS = 10.0
REDIAL_SECONDS = (0.05, 1.0)
"""Seconds before the link is made again: at first, and at most. Each pause is 1.5 times the one before."""
_PLACE, _CALL_BACK = number_of(relay_messages.RelayedPlace), number_of(relay_messages.DialBack)


class RelayLink:
    """Announces this node to the relay at `relay` ("HOST:PORT", the head's port), and dials back when called.

    `join` waits until the relay has answered; `begin(adopt)` hands every connection that was dialled to `adopt(socket)`
    from then on. A link that ends is made again, for as long as this process lives.
    """

    def __init__(self, relay: str, token: bytes, reactor: Reactor, node: NodeId, tls: TlsFiles | None = None) -> None:
        self._relay = relay
        self._token = token
        self._tls = Credentials(tls) if tls is not None else None
        self._reactor = reactor
        self._node = node
        self._log = Logger("kernel.node")
        self._place = ""
        self._lost = ""
        self._pause = REDIAL_SECONDS[0]
        self._adopt: Callable[[socket.socket], None] | None = None
        self._tickets: list[bytes] = []
        self._connection = self._dial()

    def join(self, seconds: float = JOIN_SECONDS) -> str:
        """Wait for the relay, and return the place at which the cluster reaches this node.

        Raises SessionEndedError when there is no relay.
        """
        deadline = self._reactor.clock() + seconds
        while not self._place and not self._lost and self._reactor.clock() < deadline:
            self._reactor.poll(deadline - self._reactor.clock())
        if not self._place:
            why = self._lost or f"it did not answer within {seconds:g} s"
            raise SessionEndedError(f"the relay at {self._relay} does not serve this program: {why}")
        return self._place

    def begin(self, adopt: Callable[[socket.socket], None]) -> None:
        """Hand over connections."""
        self._adopt = adopt
        tickets, self._tickets = self._tickets, []
        for ticket in tickets:
            self._call_back(ticket)

    def _dial(self) -> Connection:
        address = f"{SCHEME}{self._relay}/{RELAY}"
        connection = connect(address, self._token, self._reactor, self._on_messages, self._on_close, self._tls)
        connection.send(packed(relay_messages.RelayJoined(client=self._node.hex())))
        connection.flush()
        return connection

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        for message in messages:
            if not may_be_handled(message, (_PLACE, _CALL_BACK)):
                connection.close(f"the peer sent {message!r:.100}, which no relay says")
                return
            if message[0] == _CALL_BACK:
                self._call_back(unpacked(relay_messages.DialBack, message).ticket)
                continue
            self._pause = REDIAL_SECONDS[0]
            self._lost = ""
            place = unpacked(relay_messages.RelayedPlace, message).place
            if self._place not in ("", place):
                self._log.warning("the relay has another address than before", before=self._place, now=place)
            self._place = self._place or place

    def _call_back(self, ticket: bytes) -> None:
        if self._adopt is None:
            self._tickets.append(ticket)
            return
        adopt = self._adopt

        def connected(sock: socket.socket) -> None:
            with suppress(OSError):  # A broken socket shows when it is read.
                sock.send(calling_back(ticket))
            adopt(sock)

        host, port = parse_host_and_port(self._relay)
        HostConnector(host, port, self._reactor, connected, lambda reason, failure: None, CONNECT_SECONDS).begin()

    def _on_close(self, connection: Connection, reason: str) -> None:
        self._lost = reason
        if self._place:
            self._reactor.call_later(self._pause, self._redial)
            self._pause = min(self._pause * 1.5, REDIAL_SECONDS[1])

    def _redial(self) -> None:
        self._connection = self._dial()
