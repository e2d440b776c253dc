"""Keep the requests of a node's processes that the head has not answered: a restarted head must get them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed
from kernel_processes.protocol import head_messages
from kernel_spec.ids import ProcessId

_NAMED = "create_named_actor"
_CREATE, _SUBSCRIBE, _STATE = map(number_of, (op.CreateActor, op.SubscribeActor, op.ActorState))
_LEASE_FAILED, _WORKER_DIED = map(number_of, (op.LeaseFailed, op.LeasedWorkerDied))
_OUTDATED = (
    *map(number_of, (head_messages.DescribeNode, head_messages.StillDraining, head_messages.GrantedBefore)),
    *map(number_of, (head_messages.AskAnswered, head_messages.AllTold)),
    head_messages.WORKER_FOUND,
    head_messages.LEASE_BLOCKED,
)
"""Messages about the node's state, and answers. A new head gets the present state, and repeats its own questions."""


class OpenRequests:
    """Keeps, by process, requests for leases, returned workers, calls without an answer, and subscriptions.

    It keeps none unless `watch` is set.
    """

    def __init__(self) -> None:
        self.watch = False
        self._open: dict[ProcessId, dict[Any, Message]] = {}

    def asked(self, process: ProcessId, message: Message) -> None:
        """A process sent a message to the head."""
        if not self.watch:
            return
        operation = message[0]
        if operation == op.CANCEL_LEASE:
            self._close(process, (op.REQUEST_LEASE, message[1]))
        elif operation in (op.REQUEST_LEASE, op.CALL, _SUBSCRIBE):
            self._open.setdefault(process, {})[operation, message[1]] = message
        elif operation == op.RETURN_LEASE and message[2]:  # The process waits for the cause of that worker's death.
            self._open.setdefault(process, {})[operation, message[3]] = message
        actor = message[1] if operation == _CREATE else None
        if operation == op.CALL and message[2] == _NAMED:
            actor = message[3][0]
        if actor is not None:  # An actor's creator gets its changes without a request.
            self._open.setdefault(process, {})[_SUBSCRIBE, actor] = packed(op.SubscribeActor(actor=actor))

    def answered(self, process: ProcessId, message: Message) -> None:
        """The head sent a message to a process."""
        if not self.watch:
            return
        if message[0] in (op.REPLY, op.REPLY_ERROR, op.REPLY_PICKLED):
            self._close(process, (op.CALL, message[1]))
        elif message[0] in (op.LEASE_GRANTED, _LEASE_FAILED):
            self._close(process, (op.REQUEST_LEASE, message[1]))
        elif message[0] == _WORKER_DIED:
            self._close(process, (op.RETURN_LEASE, message[1]))
        elif message[0] == _STATE and message[2] == "DEAD":
            self._close(process, (_SUBSCRIBE, message[1]))

    def forget(self, process: ProcessId) -> None:
        """A process has ended."""
        self._open.pop(process, None)

    def messages(self) -> Iterator[tuple[ProcessId, Message]]:
        """Yield all open requests, in each process's order."""
        for process, messages in self._open.items():
            for message in messages.values():
                yield process, message

    def to_resend(self, unacknowledged: Iterable[Message]) -> Iterator[Message]:
        """Yield the messages for another head, in order: the relevant ones of `unacknowledged`, and all open requests.

        `unacknowledged` are messages that the last head may not have received. Requests that it has answered are not
        sent again: they would be carried out twice, perhaps after other processes have changed things.
        """
        of_processes = {id(message) for messages in self._open.values() for message in messages.values()}
        unacknowledged = [message for message in unacknowledged if message[0] not in _OUTDATED]
        told = {id(message[2]) for message in unacknowledged if message[0] == head_messages.FROM_PROCESS}
        for process, message in self.messages():
            if id(message) not in told:
                yield (head_messages.FROM_PROCESS, process, message)
        for message in unacknowledged:
            inner = message[2] if message[0] == head_messages.FROM_PROCESS else None
            if inner is not None and inner[0] in (op.CALL, op.REQUEST_LEASE) and id(inner) not in of_processes:
                continue
            yield message

    def _close(self, process: ProcessId, key: tuple[int, Any]) -> None:
        messages = self._open.get(process)
        if messages is not None:
            messages.pop(key, None)
