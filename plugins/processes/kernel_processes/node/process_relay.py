"""Messages between the processes of a node and the head, which the agent passes on."""

from __future__ import annotations

from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.node.head_commands import HeadCommands
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.to_head import ToHead
from kernel_processes.protocol import head_messages
from kernel_processes.transport.connection import Connection
from kernel_spec.ids import ProcessId


class RelayToHead:
    """Passes on what processes say, and notes in `requests` what of it the head has to answer."""

    def __init__(self, requests: OpenRequests, to_head: ToHead) -> None:
        self._requests = requests
        self._to_head = to_head

    def pass_on(self, connection: Connection, message: Message) -> None:
        """Queue a message of a process to the head."""
        self._requests.asked(connection.info.id, message)
        self._to_head.send((head_messages.FROM_PROCESS, connection.info.id, message))


class RelayToProcesses:
    """Passes on what the head says and asks. Runs in the agent's loop."""

    def __init__(
        self, commands: HeadCommands, processes: ProcessTable, requests: OpenRequests, to_head: ToHead
    ) -> None:
        self._processes = processes
        self._requests = requests
        self._to_head = to_head
        commands.words[head_messages.TO_PROCESS] = self._pass_on
        commands.on(head_messages.AskProcess, self._ask)

    def _pass_on(self, process: ProcessId, message: Message) -> None:
        self._requests.answered(process, message)
        self._processes.send(process, message)

    def _ask(self, said: head_messages.AskProcess) -> None:
        connection = self._processes.connections.get(said.process)

        def answered(value: object) -> None:
            self._to_head.send(packed(head_messages.AskAnswered(number=said.number, value=value)))

        if connection is None:
            answered(None)
        else:
            self._processes.ask(connection, said.method, answered, *said.arguments)
