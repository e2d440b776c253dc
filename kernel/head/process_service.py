"""Processes on the head: who joins and leaves, what they ask for, and the jobs that drivers are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kernel.head.deferred import Deferred
from kernel.head.nodes import Caller, Node
from kernel.protocol import head_messages
from kernel.protocol import process_messages as op
from kernel.protocol.named_messages import packed
from kernel.protocol.replies import outcome_of, reply
from kernel.transport.connection import Message
from kernel_spec import observers
from kernel_spec.errors import ProtocolError
from kernel_spec.ids import ProcessId

if TYPE_CHECKING:
    from kernel.head.head import Head

STARTER_ENDED = "the program that started it ended"
_ON_LEASES = (op.REQUEST_LEASE, op.CANCEL_LEASE, op.RETURN_LEASE)


class ProcessService:
    """Keeps `head.callers` and `head.jobs`. Runs in the head's loop."""

    def __init__(self, head: Head) -> None:
        self._head = head
        head.handlers[op.CALL] = self._on_call
        head.on(head_messages.ProcessJoined, self._joined)
        head.on(head_messages.ProcessLeft, lambda node, said: self._left(node, said.process))
        head.words[head_messages.FROM_PROCESS] = self._said

    # -- joining and leaving ---------------------------------------------------------------------------------------

    def _joined(self, node: Node, said: head_messages.ProcessJoined) -> None:
        head = self._head
        if said.process in head.callers:
            return  # told once more, after the death of a head
        caller = head.callers[said.process] = Caller(*said, node)
        if caller.role == "driver" and caller.job not in head.jobs.jobs:
            head.journal.job(head.jobs.add(caller, time.time()))
        if caller.role == "driver":
            head.tell_faults(caller)
        elif caller.role == "worker":
            head.observe(observers.WORKER, observers.ALIVE, caller.id, {"pid": caller.pid})

    def _left(self, node: Node, id: ProcessId) -> None:
        for other in self._head.living_nodes():
            if other is not node:
                other.send(packed(head_messages.ProcessesGone(processes=[id], place="")))
        self.forget(id)

    def forget(self, id: ProcessId) -> None:
        """A process is gone, and with it what it held, waited for and owned."""
        head = self._head
        head.breakpoints.process_left(id)
        caller = head.callers.pop(id, None)
        if caller is None:
            return
        caller.closed = True
        head.lease_manager.holder_left(caller)
        head.actors.owner_died(caller)
        head.groups.process_left(caller)
        if caller.role == "driver":
            self.end_job(id)
            if head.config.ephemeral and caller.details.get("starter"):
                head.end(STARTER_ENDED)

    def end_job(self, driver: ProcessId) -> None:
        """A driver is gone, and with it its job."""
        head = self._head
        job = head.jobs.end(driver, time.time())
        if job is None:
            return
        for node in head.living_nodes():
            node.send(packed(head_messages.JobEnded(job=job.id)))
        head.groups.job_ended(job.id)
        working = {caller.job for caller in head.callers.values() if caller.role == "worker"}
        head.journal.job(job)
        for id in head.jobs.forget(head.actors.table.living_jobs() | working):
            head.journal.forget_job(id)

    # -- what they say ---------------------------------------------------------------------------------------------

    def _said(self, node: Node, id: ProcessId, message: Message) -> None:
        caller = self._head.callers.get(id)
        handler = self._head.handlers.get(message[0])
        if caller is None:
            return
        if handler is None:
            raise ProtocolError(f"process {id.hex()} sent {message!r:.100}, which the head does not know")
        if self._head.recovery.active and message[0] in _ON_LEASES:
            self._head.recovery.postpone(node, id, message)
        else:
            handler(caller, message)

    def _on_call(self, caller: Caller, message: Message) -> None:
        _, number, name, arguments = message
        method = self._head.methods.get(name)
        if method is None:
            error = ProtocolError(f"neither the node agent nor the head answers {name!r}")
            caller.send(reply(number, error))
            return
        outcome = outcome_of(name, method, (caller, *arguments), "the head", self._head.log)
        if isinstance(outcome, Deferred):
            outcome.when_done(lambda answer: caller.send(reply(number, answer)))
        else:
            caller.send(reply(number, outcome))
