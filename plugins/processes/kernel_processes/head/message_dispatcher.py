"""Dispatch messages to the parts of the head: by the kind of message, or by the method that a process calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Kind, Message, number_of
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.replies import outcome_of, reply
from kernel_spec.errors import ProtocolError
from kernel_spec.ids import ProcessId

_ON_LEASES = (op.REQUEST_LEASE, op.CANCEL_LEASE, op.RETURN_LEASE)


class MessageDispatcher:
    """Hands each message to the part that has registered for it. Runs in the head's loop.

    The parts fill `words` (also by `on`) for messages of agents, `handlers` and `methods` for messages and calls of
    processes.
    """

    def __init__(self, cluster: ClusterTable, log: Logger) -> None:
        self._cluster = cluster
        self._callers = cluster.callers
        self._log = log
        self.words: dict[int, Callable[..., None]] = {head_messages.FROM_PROCESS: self._said}
        self.handlers: dict[int, Callable[[ProcessRecord, Message], None]] = {op.CALL: self._on_call}
        self.methods: dict[str, Callable[..., Any]] = {}
        self._postponed: list[tuple[NodeRecord, ProcessId, Message]] = []
        self.on(head_messages.AskAnswered, cluster.answered)

    def on(self, kind: type[Kind], handler: Callable[[NodeRecord, Kind], None]) -> None:
        """Have `handler(node, message)` called for each message of this kind that a node's agent sends."""
        self.words[number_of(kind)] = lambda node, *fields: handler(node, kind(*fields))

    def handle(self, node: NodeRecord, message: Message) -> None:
        """Handle one message of a node's agent. An error in a handler is logged."""
        try:
            self.words[message[0]](node, *message[1:])
        except Exception:
            self._log.exception("a message of a node could not be handled", word=message[0], node=node.id.hex())

    def replay(self) -> None:
        """Handle what processes said of leases while the head waited for the nodes that an earlier head knew."""
        postponed, self._postponed = self._postponed, []
        for node, process, message in postponed:
            self.handle(node, (head_messages.FROM_PROCESS, process, message))

    def _said(self, node: NodeRecord, id: ProcessId, message: Message) -> None:
        caller = self._callers.get(id)
        if caller is None:
            return
        handler = self.handlers.get(message[0])
        if handler is None:
            raise ProtocolError(f"process {id.hex()} sent {message!r:.100}, which the head does not know")
        if self._cluster.recovering and message[0] in _ON_LEASES:
            self._postponed.append((node, id, message))
        else:
            handler(caller, message)

    def _on_call(self, caller: ProcessRecord, message: Message) -> None:
        _, number, name, arguments = message
        method = self.methods.get(name)
        if method is None:
            error = ProtocolError(f"neither the node agent nor the head answers {name!r}")
            caller.send(reply(number, error))
            return
        outcome = outcome_of(name, method, (caller, *arguments), "the head", self._log)
        if isinstance(outcome, Deferred):
            outcome.when_done(lambda answer: caller.send(reply(number, answer)))
        else:
            caller.send(reply(number, outcome))
