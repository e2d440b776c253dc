"""Pass messages between the processes of a node and the head."""

from __future__ import annotations

from collections.abc import Callable

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.protocol import head_messages
from kernel_processes.transport.connection import Connection
from kernel_spec.ids import ProcessId

_FOR_THE_HEAD = (
    op.REQUEST_LEASE, op.CANCEL_LEASE, op.RETURN_LEASE,
    *map(number_of, (op.CreateActor, op.ActorArguments, op.ForgetActor, op.SubscribeActor, op.ActorReady)),
    *map(number_of, (op.Backlog, op.LastCalls, op.LastMetrics)),
)  # fmt: skip


class RelayToHead:
    """Passes messages of processes on to the head, and records in `requests` those that the head has to answer."""

    def __init__(self, head: HeadClient, requests: OpenRequests) -> None:
        self._head = head
        self._requests = requests
        self.handlers: dict[int, Callable[[Connection, Message], None]] = dict.fromkeys(_FOR_THE_HEAD, self.pass_on)

    def pass_on(self, connection: Connection, message: Message) -> None:
        """Queue a message of a process to the head."""
        self._requests.asked(connection.info.id, message)
        self._head.send((head_messages.FROM_PROCESS, connection.info.id, message))


class RelayToProcesses:
    """Passes messages and questions of the head on to processes. Runs in the agent's loop."""

    def __init__(self, head: HeadClient, processes: ProcessTable, requests: OpenRequests) -> None:
        self._head = head
        self._processes = processes
        self._requests = requests
        head.handlers[head_messages.TO_PROCESS] = self._pass_on
        head.on(head_messages.AskProcess, self._ask)

    def _pass_on(self, process: ProcessId, message: Message) -> None:
        self._requests.answered(process, message)
        self._processes.send(process, message)

    def _ask(self, said: head_messages.AskProcess) -> None:
        connection = self._processes.connections.get(said.process)

        def answered(value: object) -> None:
            self._head.send(packed(head_messages.AskAnswered(number=said.number, value=value)))

        if connection is None:
            answered(None)
        else:
            self._processes.ask(connection, said.method, answered, *said.arguments)
