"""Keep the processes of a node, and their connections to the agent, which carry questions both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, unpacked
from kernel_processes.protocol.identity import Peer
from kernel_processes.protocol.pending_requests import PendingRequests
from kernel_processes.protocol.python_version import PYTHON
from kernel_processes.protocol.replies import outcome_of, reply
from kernel_processes.transport.connection import ATTACH_OPERATION, Connection, may_be_handled
from kernel_spec.ids import ProcessId

_INTRODUCTIONS = (number_of(op.Introduction), ATTACH_OPERATION)


class ProcessTable:
    """Takes the connections that the agent's listener accepts. The parts of the agent fill `handlers` and `methods`.

    `on_joined(peer)` is called for each process that introduces itself, and `on_left(connection)` when that closes.
    A call of a method that is unknown here goes to `relay(connection, message)`. `refused(reason)` is called for
    strangers.
    """

    def __init__(
        self,
        log: Logger,
        on_joined: Callable[[Peer], None],
        on_left: Callable[[Connection], None],
        relay: Callable[[Connection, Message], None],
        refused: Callable[[str], None],
    ) -> None:
        self._log = log
        self._on_joined = on_joined
        self._on_left = on_left
        self._relay = relay
        self._refused = refused
        self.connections: dict[ProcessId, Connection] = {}
        self.methods: dict[str, Callable[..., Any]] = {}
        self.handlers: dict[int, Callable[[Connection, Message], None]] = {
            number_of(op.Introduction): self._on_hello,
            op.CALL: self._on_call,
            op.REPLY: self._on_reply,
            op.REPLY_ERROR: self._on_reply,
        }
        self._pending: PendingRequests[Connection] = PendingRequests()
        self._dirty: set[Connection] = set()

    # -- to them ---------------------------------------------------------------------------------------------------

    def send(self, process: ProcessId, message: Message) -> None:
        """Queue a message to a process of this node, if it is still there."""
        connection = self.connections.get(process)
        if connection is not None:
            connection.send(message)
            self._dirty.add(connection)

    def broadcast(self, message: Message) -> None:
        """Queue a message to every process of this node."""
        for process in self.connections:
            self.send(process, message)

    def ask(self, connection: Connection, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask a process something; `then(answer)` is called from the loop, with None when it can't answer."""
        connection.send((op.CALL, self._pending.begin(connection, then), method, arguments))
        self._dirty.add(connection)

    def flush(self) -> None:
        """Write what is queued."""
        while self._dirty:
            self._dirty.pop().flush()

    # -- from them -------------------------------------------------------------------------------------------------

    def on_messages(self, connection: Connection, messages: list[Message]) -> None:
        """Handle messages of a process."""
        for message in messages:
            if connection.closed:
                return
            if connection.info is None and not may_be_handled(message, _INTRODUCTIONS):
                connection.close("the peer did not introduce itself")
                return
            if not may_be_handled(message, self.handlers):
                connection.close(f"the peer sent {message!r:.100}, which is no message")
                return
            try:
                self.handlers[message[0]](connection, message)
            except Exception as error:
                if connection.info is None:
                    connection.close(f"the peer introduced itself in a way that can't be read: {error}")
                    return
                self._log.exception("a message could not be handled", operation=message[0])
        self._dirty.add(connection)

    def on_close(self, connection: Connection, reason: str) -> None:
        """A connection ended: its process has left, if it ever was one."""
        peer: Peer | None = connection.info
        if peer is None:
            self._refused(reason)
            return
        if self.connections.get(peer.id) is not connection:
            return
        del self.connections[peer.id]
        self._pending.lost(connection)
        self._on_left(connection)

    def close(self, reason: str) -> None:
        """Write what is queued, and close all connections."""
        for connection in self.connections.values():
            connection.flush()
        for connection in list(self.connections.values()):
            connection.on_close = lambda connection, reason: None
            connection.close(reason)

    def _on_hello(self, connection: Connection, message: Message) -> None:
        said = unpacked(op.Introduction, message)
        if said.python != PYTHON:
            connection.close(f"the peer runs Python {said.python}, this node {PYTHON}: they must be the same")
            return
        connection.info = Peer(said.process, said.role, said.pid, said.address, said.details)
        self.connections[said.process] = connection
        self._on_joined(connection.info)

    def _on_call(self, connection: Connection, message: Message) -> None:
        _, number, name, arguments = message
        method = self.methods.get(name)
        if method is None:
            self._relay(connection, message)
            return
        outcome = outcome_of(name, method, (connection, *arguments), "the node agent", self._log)
        connection.send(reply(number, outcome))

    def _on_reply(self, connection: Connection, message: Message) -> None:
        self._pending.answered(message[1], message[2] if message[0] == op.REPLY else None)
