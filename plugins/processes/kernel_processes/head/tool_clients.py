"""Tools that connect to the head's port from a machine without a node: `kernel status --address HOST:PORT`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, unpacked
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol.python_version import PYTHON
from kernel_processes.transport.connection import Connection, may_be_handled
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import JobId, ProcessId

ROLE = "tool"


class ToolClient(ProcessRecord):
    """A tool, as the head's methods see it: a process on the first node, because it has no node of its own."""

    __slots__ = ("_cluster", "_connection", "_dispatcher")

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
        self._connection = connection

    @property
    def node(self) -> NodeRecord:  # type: ignore[override]
        """The first living node. Raises SessionEndedError when there is none."""
        for node in self._cluster.working_nodes():
            return node
        raise SessionEndedError("the head has just been started, and no node has joined it yet; ask again in a moment")

    def send(self, message: Message) -> None:
        """Queue a message to it."""
        self._connection.send(message)

    def on_message(self, message: Message) -> None:
        """Answer a question."""
        if may_be_handled(message, (op.CALL,)):
            self._dispatcher.handlers[op.CALL](self, message)
        else:
            self._connection.close("a tool may only ask")


def tool_client_of(
    dispatcher: MessageDispatcher, cluster: ClusterTable, connection: Connection, message: Message
) -> ToolClient | str:
    """Return the tool that introduces itself with `message`, or the reason why it is refused."""
    said = unpacked(op.Introduction, message)
    if said.role != ROLE:
        return f"a process that calls itself a {said.role} came to the head; it has to join a node"
    if said.python != PYTHON:
        return f"the peer runs Python {said.python}, the head {PYTHON}: they must be the same"
    return ToolClient(dispatcher, cluster, connection, said.process, said.pid, said.details)
