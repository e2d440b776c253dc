"""Serve tools that connect to the head's port from a machine without a node, as `kernel status --address HOST:PORT`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_processes.head.breakpoint_table import BreakpointTable
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol.python_version import PYTHON
from kernel_processes.transport.connection import Connection, may_be_handled
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import JobId, ProcessId

ROLE = "tool"


class ToolClient(ProcessRecord):
    """Represents a tool. The head's methods take it for a process on the first node, because it has no own node."""

    __slots__ = ("_cluster", "_dispatcher", "connection")

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        connection: Connection,
        id: bytes,
        pid: int,
        details: Mapping[str, Any],
    ) -> None:
        self.id, self.role, self.pid, self.address = ProcessId(id), ROLE, pid, ""
        self.job, self.environment, self.details, self.closed = JobId(b""), "", details, False
        self._dispatcher = dispatcher
        self._cluster = cluster
        self.connection = connection

    @property
    def node(self) -> NodeRecord:  # type: ignore[override]
        """The first living node. Raises SessionEndedError when there is none."""
        for node in self._cluster.working_nodes():
            return node
        raise SessionEndedError("the head has just been started, and no node has joined it yet; ask again in a moment")

    def send(self, message: Message) -> None:
        """Queue a message to it."""
        self.connection.send(message)

    def on_message(self, message: Message) -> None:
        """Answer a question."""
        if may_be_handled(message, (op.CALL,)):
            self._dispatcher.handlers[op.CALL](self, message)
        else:
            self.connection.close("a tool may only ask")


class ToolClients:
    """Holds every connected tool, and answers its questions like those of any process."""

    def __init__(self, dispatcher: MessageDispatcher, cluster: ClusterTable, breakpoints: BreakpointTable) -> None:
        self._dispatcher = dispatcher
        self._cluster = cluster
        self._breakpoints = breakpoints
        self.connections: set[Connection] = set()

    def introduce(self, connection: Connection, said: op.Introduction) -> str:
        """Accept the tool that introduces itself; return the reason if it is refused, otherwise ""."""
        if said.role != ROLE:
            return f"a process that calls itself a {said.role} came to the head; it has to join a node"
        if said.python != PYTHON:
            return f"the peer runs Python {said.python}, the head {PYTHON}: they must be the same"
        connection.info = ToolClient(self._dispatcher, self._cluster, connection, said.process, said.pid, said.details)
        self.connections.add(connection)
        return ""

    def closed(self, tool: ToolClient) -> None:
        """A tool is gone: breakpoints that it was attached to wait again."""
        tool.closed = True
        self.connections.discard(tool.connection)
        self._breakpoints.process_left(tool)
