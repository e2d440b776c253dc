"""Relay at the gateway of the head's node: the table decides, the process passes the bytes. In the agent's loop."""

from __future__ import annotations

import itertools
import os
import socket

from kernel_engine.messages.named_messages import Message, number_of, packed
from kernel_network_tcp.gateway import Gateway
from kernel_network_tcp.relay import relay_messages
from kernel_network_tcp.relay.process import RelayProcess
from kernel_network_tcp.relay.table import CallBack, Connect, Here, Instruction, Join, Refuse, RelayTable
from kernel_network_tcp.transport.preamble import TICKET_BYTES, UNREACHABLE
from kernel_processes.transport.addresses import RELAY, VIA, is_client
from kernel_processes.transport.connection import Connection, may_be_handled
from kernel_processes.transport.reactor import Reactor

TICK_SECONDS = 1.0
_INTRODUCTIONS = (number_of(relay_messages.RelayJoined),)


class RelayService:
    """Serves the relay at `gateway`, which others reach at `place` ("HOST:PORT"). `directory` is the session's."""

    def __init__(self, gateway: Gateway, place: str, directory: str, reactor: Reactor) -> None:
        self._gateway = gateway
        self._place = place
        self._reactor = reactor
        self._table = RelayTable(place, lambda: os.urandom(TICKET_BYTES))
        self._process = RelayProcess(directory, reactor)
        self._sockets: dict[int, socket.socket] = {}
        """Of those about whom the table has not decided yet, by their numbers."""
        self._numbers = itertools.count(1)
        self._clients: dict[str, Connection] = {}
        self._ticking = False
        self._closed = False
        gateway.socket_relay = self
        gateway.serve_connections(RELAY, self._on_messages, self._on_close)

    @property
    def pid(self) -> int:
        """The id of the process that passes the bytes, 0 while there is none."""
        return self._process.pid

    def member(self, place: str, there: bool) -> None:
        """Note that a node with its gateway at `place` has joined, or has left."""
        self._table.member(place, there)

    def forward(self, sock: socket.socket, route: str) -> None:
        """See `SocketRelay.forward`."""
        self._carry_out(self._table.asked(self._number(sock), route, self._reactor.clock()))

    def called_back(self, sock: socket.socket, ticket: bytes) -> None:
        """See `SocketRelay.called_back`."""
        self._carry_out(self._table.called_back(self._number(sock), ticket, self._reactor.clock()))

    def close(self) -> None:
        """Stop relaying."""
        self._closed = True
        self._gateway.socket_relay = None
        for sock in self._sockets.values():
            sock.close()
        self._process.close()
        for connection in list(self._clients.values()):
            connection.close("the relay has ended")

    # -- inside ----------------------------------------------------------------------------------------------------

    def _number(self, sock: socket.socket) -> int:
        number = next(self._numbers)
        self._sockets[number] = sock
        return number

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for step in instructions:
            if isinstance(step, CallBack):
                self._say(self._clients[step.client], packed(relay_messages.DialBack(ticket=step.ticket)))
                self._keep_time()
                continue
            caller = self._sockets.pop(step.caller)
            if isinstance(step, Here):
                self._gateway.adopt(caller)
            elif isinstance(step, Connect):
                self._process.connect(caller, step.place)
            elif isinstance(step, Join):
                self._process.join(caller, self._sockets.pop(step.other))
            elif isinstance(step, Refuse):
                self._gateway.refuse(caller, UNREACHABLE, step.reason)
        if self._sockets:
            self._keep_time()

    def _keep_time(self) -> None:
        if not self._ticking and not self._closed:
            self._ticking = True
            self._reactor.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if not self._closed:
            self._carry_out(self._table.tick(self._reactor.clock()))

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        for message in messages:
            client = message[1] if may_be_handled(message, _INTRODUCTIONS) and len(message) == 2 else None
            if not isinstance(client, str) or not is_client(client):
                connection.close(f"the peer sent {message!r:.100}, which no remote driver says to a relay")
                return
            old, self._clients[client] = self._clients.get(client), connection
            if old is not None and old is not connection:
                old.close("the remote driver has come again")
            connection.info = client
            self._process.start()
            self._say(connection, packed(relay_messages.RelayedPlace(place=f"{self._place}{VIA}{client}")))
            self._carry_out(self._table.client_came(client))

    def _on_close(self, connection: Connection, reason: str) -> None:
        client = connection.info
        if client is not None and self._clients.get(client) is connection:
            del self._clients[client]
            self._table.client_left(client)

    def _say(self, connection: Connection, message: Message) -> None:
        connection.send(message)
        connection.flush()
