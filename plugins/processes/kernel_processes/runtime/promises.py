"""References whose value no task makes: they are ready once the head has answered a question.

The value is known from the start, and the reference waits until it holds: that of a placement group, for example, until
the group has been placed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

from kernel.runtime.object_entry import FAILED, INLINE, PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel_engine.messages import process_messages as op
from kernel_engine.objects.ownership import Ownership
from kernel_engine.objects.value_placement import inline
from kernel_engine.tasks.tasks import TaskTable
from kernel_processes.runtime.peer_requests import PeerRequest
from kernel_processes.runtime.process import Process
from kernel_processes.transport.connection import Connection
from kernel_spec.ids import ObjectId, object_id


class Promises:
    """Holds the promises of this process. `pending` maps an object to the thing that explains why it takes so long."""

    def __init__(self, process: Process, ownership: Ownership, table: TaskTable) -> None:
        self.pending: dict[ObjectId, tuple[str, str]] = {}
        self._process = process
        self._ownership = ownership
        self._table = table

    def make(self, value: Any, question: str, explanation: str, argument: str) -> ObjectRef:
        """Return a reference to `value` that is ready once the head has answered `question(argument)`.

        What the answer raises, `get` of it raises. `explanation(argument)` is what the head is asked meanwhile.
        """
        head, buffers, _ = self._table.serializer.dumps(value)
        entry = ObjectEntry(object_id(self._table.next_id(), 0), 1)
        ref = ObjectRef(entry)
        process = self._process
        with process.lock:
            if process.agent is None:
                raise process.session_end.error()
            self._ownership.objects[entry.id] = entry
            self.pending[entry.id] = explanation, argument
            kept = inline(head, buffers)
            request = process.expect_reply(
                process.agent, partial(_Promised, lambda error: self._keep(entry, kept, error))
            )
            process.send(process.agent, (op.CALL, request.number, question, (argument,)))
        process.flush_soon()
        return ref

    def _keep(self, entry: ObjectEntry, value: Any, error: Exception | None) -> None:
        self.pending.pop(entry.id, None)
        if entry.state != PENDING:  # The session has ended.
            return
        if error is None:
            entry.resolve(INLINE, value)
        else:
            entry.resolve(FAILED, (op.SYSTEM_ERROR, pickle.dumps(error)))
        self._ownership.free_unneeded(entry)


class _Promised(PeerRequest):
    """Holds a request whose answer is passed to `keep(error)`."""

    __slots__ = ("_keep",)

    def __init__(self, keep: Callable[[Exception | None], None], number: int, connection: Connection) -> None:
        super().__init__(number, connection)
        self._keep = keep

    def complete(self) -> None:
        """The answer is there."""
        super().complete()
        self._keep(self.take_error() if self.failed else None)
