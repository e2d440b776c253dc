"""Keep the nodes of a session: agents join, answer heartbeats, and are declared dead when they stay silent.

Tools on machines without a node connect here, too.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kernel.logs import Logger
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.head.tool_clients import ToolClient, ToolClients
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.heartbeats import DEATH_SECONDS, HEARTBEAT_SECONDS, patience
from kernel_processes.protocol.python_version import PYTHON
from kernel_processes.transport.addresses import VIA
from kernel_processes.transport.connection import Connection, may_be_handled
from kernel_processes.transport.reactor import Reactor
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import NodeId
from kernel_spec.version import __version__

_LEAST_HEARTBEATS = 5
"""Minimum number of heartbeats within the time after which a node is dead, so that one late answer does no harm."""
LOOK_SECONDS = 0.1
ENDED_SECONDS = 0.25
"""Grace period in seconds for an agent to reconnect after its socket closed."""
_JOIN, _HEARTBEAT = number_of(head_messages.JoinCluster), number_of(head_messages.Heartbeat)
_DESCRIBE, _LEAVE = number_of(head_messages.DescribeNode), number_of(head_messages.LeaveCluster)
_INTRODUCTIONS = (_JOIN, number_of(op.Introduction))


@dataclass(slots=True, eq=False)
class NodeLink:
    """Holds one agent's connection. `node` is set once the agent has described its node.

    `last_heartbeat_at` is when the agent last answered a heartbeat. Its other messages do not count: they do not show
    that it receives messages. `done` counts the agent's messages that were handled.
    """

    id: NodeId
    connection: Connection
    last_heartbeat_at: float
    node: NodeRecord | None = None
    done: int = 0

    @property
    def is_client(self) -> bool:
        """Whether it is the agent of a remote driver."""
        return self.node is not None and self.node.client


class SessionNodes(Protocol):
    """Is told when nodes join and leave: the head itself."""

    @property
    def ending(self) -> str | None:
        """Why the session ends, None if it does not."""

    def add_node(self, node: NodeRecord) -> None:
        """A node joined."""

    def remove_node(self, node: NodeRecord, cause: str) -> None:
        """A node is gone, with all of its processes."""


class NodeMembership:
    """Makes nodes of agents' connections. `shared` are the settings that are sent to every node.

    Pass it the connections that a listener or gateway accepts for the head (`on_messages`, `on_close`). Connections of
    tools are passed on to `tools`, messages of nodes to `handle`.
    """

    def __init__(
        self,
        session: SessionNodes,
        handle: Callable[[NodeRecord, Message], None],
        cluster: ClusterTable,
        tools: ToolClients,
        reactor: Reactor,
        shared: Mapping[str, Any],
        death_seconds: float = DEATH_SECONDS,
    ) -> None:
        self._session = session
        self._handle = handle
        self._cluster = cluster
        self._tools = tools
        self._reactor = reactor
        self._shared = dict(shared)
        self._death_seconds = death_seconds
        self._heartbeat_seconds = min(HEARTBEAT_SECONDS, death_seconds / _LEAST_HEARTBEATS)
        self._links: set[NodeLink] = set()
        self._looked_at = self._sent_at = reactor.clock()
        reactor.call_later(LOOK_SECONDS, self._look)

    def on_messages(self, connection: Connection, messages: list[Message]) -> None:
        """Handle messages of an agent or a tool."""
        for message in messages:
            if connection.closed:
                return
            link: NodeLink | ToolClient | None = connection.info
            if link is None:
                self._introduce(connection, message)
                continue
            if isinstance(link, ToolClient):
                link.on_message(message)
                continue
            if message[0] == _HEARTBEAT:
                self._note_heartbeat(link)
                continue
            link.done += 1
            if message[0] == _DESCRIBE:
                self._describe(link, unpacked(head_messages.DescribeNode, message))
            elif message[0] == _LEAVE:
                self._lose(link, unpacked(head_messages.LeaveCluster, message).reason)
            elif link.node is not None:
                self._handle(link.node, message)

    def _note_heartbeat(self, link: NodeLink) -> None:
        link.last_heartbeat_at = self._reactor.clock()
        if link.node is not None:
            link.node.last_heartbeat_at = link.last_heartbeat_at

    def on_close(self, connection: Connection, reason: str) -> None:
        """Handle the end of a connection: its node is lost."""
        if isinstance(connection.info, ToolClient):
            self._tools.closed(connection.info)
        elif connection.info is not None:
            self._lose(connection.info, f"its agent is gone: {reason}")

    @property
    def has_links(self) -> bool:
        """Whether any node has a link."""
        return bool(self._links)

    def close(self) -> None:
        """Send what is queued, and close all connections."""
        for connection in self._connections():
            connection.write_out(1.0)
            connection.on_close = lambda connection, reason: None
            connection.close("the head has ended")

    def _introduce(self, connection: Connection, message: Message) -> None:
        if not may_be_handled(message, _INTRODUCTIONS):
            connection.close("the peer did not introduce itself as a node")
        elif message[0] == _JOIN:
            self._join(connection, unpacked(head_messages.JoinCluster, message))
        else:
            refusal = self._tools.introduce(connection, unpacked(op.Introduction, message))
            if refusal:
                self._refuse(connection, refusal)

    def _refuse(self, connection: Connection, reason: str) -> None:
        connection.send(packed(head_messages.JoinRefused(reason=reason)))
        connection.write_out(1.0)
        connection.close(reason)

    def _join(self, connection: Connection, said: head_messages.JoinCluster) -> None:
        refusal = self._why_not(said)
        if refusal:
            Logger("kernel.head").warning("a node was refused", node=said.node.hex(), host=said.host, reason=refusal)
            self._refuse(connection, refusal)
            return
        connection.wait_if_ended(ENDED_SECONDS)
        connection.info = link = NodeLink(said.node, connection, self._reactor.clock())
        self._links.add(link)
        shared = {**self._shared, "tell_all": self._cluster.recovering, "death_seconds": self._death_seconds}
        connection.send(packed(head_messages.Welcome(settings=pickle.dumps(shared))))
        connection.flush()

    def _why_not(self, said: head_messages.JoinCluster) -> str:
        if said.python != PYTHON:
            return f"{said.host} runs Python {said.python}, the head {PYTHON}: they must be the same"
        if said.version != __version__:
            return f"{said.host} has kernel {said.version}, the head {__version__}: install the same on both"
        if cause := self._cluster.why_fallen(said.node):
            return f"this node was declared dead: {cause}"
        if said.node in self._cluster.nodes:
            return "a node of this id is here already"
        if self._session.ending is not None:
            return f"the session is ending: {self._session.ending}"
        return ""

    def _describe(self, link: NodeLink, said: head_messages.DescribeNode) -> None:
        parts = pickle.loads(said.description)
        link.node = NodeRecord(
            link.id, link.connection.send, joined=time.time(), last_heartbeat_at=link.last_heartbeat_at, **parts
        )
        if link.is_client:
            link.connection.wait_even_if_ended(self._patience(link))
        else:
            link.connection.wait_at_least(self._patience(link))
            if link.node.address and VIA not in link.node.address:
                link.connection.end_with(link.node.address)
        self._session.add_node(link.node)

    def _lose(self, link: NodeLink, cause: str) -> None:
        if link not in self._links:
            return
        self._links.discard(link)
        if link.node is not None:
            self._session.remove_node(link.node, cause)
        if not link.connection.closed:
            link.connection.on_close = lambda connection, reason: None
            link.connection.close(cause)

    def _look(self) -> None:
        """Declare silent nodes dead, no later than promised, and send heartbeats at intervals.

        Time for which this process itself was stopped does not count as silence.
        """
        self._reactor.call_later(LOOK_SECONDS, self._look)
        now = self._reactor.clock()
        stood_still, self._looked_at = now - self._looked_at - LOOK_SECONDS, now
        if stood_still > self._heartbeat_seconds:
            for link in self._links:
                link.last_heartbeat_at += stood_still
        for link in list(self._links):
            if now - link.last_heartbeat_at > self._patience(link) - LOOK_SECONDS:
                self._lose(link, f"no heartbeat from it for {now - link.last_heartbeat_at:.1f} s")
        if now - self._sent_at >= self._heartbeat_seconds - LOOK_SECONDS / 2:
            self._sent_at = now
            for link in self._links:
                link.connection.send(packed(head_messages.Heartbeat(done=link.done)))
            self.flush()

    def _connections(self) -> list[Connection]:
        return [*(link.connection for link in self._links), *self._tools.connections]

    def _patience(self, link: NodeLink) -> float:
        return patience(self._death_seconds, link.is_client)

    def flush(self) -> None:
        """Write the messages that are queued for nodes and tools."""
        for connection in self._connections():
            if connection.outbox:
                connection.flush()
