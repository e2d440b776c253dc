"""Connections between agents, without the head: messages for processes of other nodes, and orders about objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernel_engine.messages.named_messages import Message
from kernel_network_tcp.agent_messages import DELETE, FORWARD, KEEP
from kernel_network_tcp.transport.connect import connect
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.tcp_connection import TcpConnection
from kernel_processes.transport.addresses import AGENT, SCHEME, through
from kernel_processes.transport.connection import Connection, may_be_handled
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import ObjectId, ProcessId

Handlers = dict[int, Callable[..., None]]
AGAIN_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
"""Seconds for which an unreachable place is tried. By then the head has reported if its node is gone."""


class AgentLinks:
    """Connects this agent to others, when a connection is first needed.

    When one ends, messages that may not have arrived are sent again until the node is known to be gone. They do no harm
    when they arrive twice.
    A *place* is where a node is reached: its gateway ("HOST:PORT"), perhaps behind a relay. `forward(process,
    message)`, `delete(objects)` and `keep(object)` carry out here the orders of other agents. `relay` leads to all
    others, if there is one. Pass `on_messages` and `on_close` to the gateway.
    """

    def __init__(
        self,
        token: bytes,
        tls: Credentials | None,
        reactor: Reactor,
        forward: Callable[[ProcessId, Message], None],
        delete: Callable[[Sequence[ObjectId]], None],
        keep: Callable[[ObjectId], None],
        relay: str = "",
    ) -> None:
        self._relay = relay
        self._token = token
        self._tls = tls
        self._reactor = reactor
        self._handlers: Handlers = {FORWARD: forward, DELETE: delete, KEEP: keep}
        self._connections: dict[str, Connection] = {}
        self._dirty: set[Connection] = set()
        self._again: dict[str, list[Message]] = {}
        """Place to the messages that must be sent again."""
        self._lost_at: dict[str, float] = {}
        """Place to the time since which it can't be reached."""
        self._closed = False

    def forward(self, place: str, process: ProcessId, message: Message) -> None:
        """Have the agent at `place` hand a message to one of its processes."""
        self._tell(place, (FORWARD, process, message))

    def delete(self, place: str, objects: Sequence[ObjectId]) -> None:
        """Have the agent at `place` delete objects."""
        self._tell(place, (DELETE, list(objects)))

    def keep(self, place: str, object: ObjectId) -> None:
        """Have the agent at `place` keep its copy of an object."""
        self._tell(place, (KEEP, object))

    def flush(self) -> None:
        """Write what is queued."""
        while self._dirty:
            self._dirty.pop().flush()

    def forget(self, place: str) -> None:
        """Close the connection to a node that is gone, and forget its place."""
        self._again.pop(place, None)
        self._lost_at.pop(place, None)
        connection = self._connections.pop(place, None)
        if connection is not None:
            connection.close("its node is gone")

    def close(self) -> None:
        """End every connection."""
        self._closed = True
        for place in list(self._connections):
            self.forget(place)

    def on_messages(self, connection: Connection, messages: list[Message]) -> None:
        """Do what another agent asks for."""
        for message in messages:
            if not may_be_handled(message, self._handlers):
                connection.close(f"the peer sent {message!r:.100}, which is no message of an agent")
                return
            self._handlers[message[0]](*message[1:])

    def on_close(self, connection: Connection, reason: str) -> None:
        """Forget a connection that has ended; the next message to its node opens another."""
        self._dirty.discard(connection)
        for place in [place for place, known in self._connections.items() if known is connection]:
            del self._connections[place]
            if isinstance(connection, TcpConnection):
                self._keep(place, connection)

    def _keep(self, place: str, connection: TcpConnection) -> None:
        now = self._reactor.clock()
        lost_at = self._lost_at.setdefault(place, now) if connection.fresh else now
        unacknowledged = connection.unacknowledged()
        if now - lost_at > PATIENCE_SECONDS or not unacknowledged:
            self._lost_at.pop(place, None)
            return
        self._lost_at[place] = lost_at
        if place not in self._again:
            self._reactor.call_later(AGAIN_SECONDS, lambda: self._say_again(place))
        self._again.setdefault(place, []).extend(unacknowledged)

    def _say_again(self, place: str) -> None:
        for message in self._again.pop(place, ()):
            if not self._closed:
                self._tell(place, message)
        self.flush()

    def _tell(self, place: str, message: Message) -> None:
        connection = self._connections.get(place)
        if connection is None:
            address = through(self._relay, f"{SCHEME}{place}/{AGENT}")
            connection = connect(address, self._token, self._reactor, self.on_messages, self.on_close, self._tls)
            self._connections[place] = connection
        connection.send(message)
        self._dirty.add(connection)
