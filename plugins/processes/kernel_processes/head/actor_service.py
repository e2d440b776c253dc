"""Carry out on the head what `kernel_processes.head.actors` decides about actors."""

from __future__ import annotations

import os
import pickle
from collections.abc import Container

from kernel_engine.messages import process_messages as op
from kernel_processes.head import actor_records as control
from kernel_processes.head.actor_subscriptions import ActorSubscriptions
from kernel_processes.head.actor_workers import ActorWorkers
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.journal import Journal
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import KernelError
from kernel_spec.ids import LeaseId, ProcessId


class ActorService:
    """Passes events to the table of actors and carries out its instructions. Runs in the head's loop."""

    def __init__(
        self,
        table: ActorTable,
        journal: Journal,
        workers: ActorWorkers,
        subscriptions: ActorSubscriptions,
        reactor: Reactor,
    ) -> None:
        self.table = table
        self._journal = journal
        self._workers = workers
        self._subscriptions = subscriptions
        self._reactor = reactor

    # -- events ----------------------------------------------------------------------------------------------------

    def create(self, record: control.ActorRecord, caller: ProcessRecord) -> None:
        """A process creates an actor, and is told of its changes. Raises NameTakenError."""
        if record.id not in self.table.actors:  # After a head's death the creator sends it a second time.
            self.table.create(record)
            self._write_down()
        self._subscriptions.add(caller, record.id)

    def lease_served(self, lease: LeaseId, worker: ProcessId) -> None:
        """An actor's lease has its worker."""
        self.carry_out(self.table.lease_granted(lease, worker))

    def lease_refused(self, lease: LeaseId, error: KernelError) -> None:
        """There will be no worker for an actor's lease: its callers get the error."""
        self.carry_out(self.table.lease_failed(lease, (op.SYSTEM_ERROR, pickle.dumps(error)), str(error)))

    def place_lost(self, lease: LeaseId, reason: str) -> None:
        """The placement group that an actor's lease is in is gone."""
        self.carry_out(self.table.place_lost(lease, reason))

    def worker_died(self, worker: ProcessId, cause: str, fault: int) -> None:
        """A process ended; `fault` says what that means (see `process_messages`)."""
        self.carry_out(self.table.worker_died(worker, cause, fault))

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone: so are its subscriptions and its actors."""
        self._subscriptions.process_left(caller)
        self.carry_out(self.table.owner_died(caller.id))

    # -- after the death of a head ---------------------------------------------------------------------------------

    def restore(self) -> None:
        """Read what an earlier head wrote down of actors."""
        for record in self._journal.actors():
            self.table.restore(record)

    def resume(self, living: Container[ProcessId]) -> None:
        """Go on with what is left, now that all processes that are `living` are known."""
        leases = self._workers.leases()
        self.carry_out(self.table.resume(living, leases, living))
        for lease in list(self.table.leases):
            worker = leases.get(lease)
            if worker is not None:
                self.lease_served(lease, worker)
        self._subscriptions.answer_waiting()

    # -- instructions ----------------------------------------------------------------------------------------------

    def carry_out(self, instructions: list[control.Instruction]) -> None:
        """Do what the table decided."""
        for step in instructions:
            if isinstance(step, control.AskLease):
                self._ask_lease(step)
            elif isinstance(step, control.DropLease):
                self._workers.release(step.lease)
            elif isinstance(step, control.Construct):
                self._workers.construct(self.table.actors[step.actor])
            elif isinstance(step, control.EndWorker):
                self._workers.end(step)
            else:
                self._subscriptions.publish(self.table.actors[step.actor])
        self.table.forget_dead()
        self._write_down()

    def _ask_lease(self, step: control.AskLease) -> None:
        if step.seconds:
            later = control.AskLease(step.actor)
            self._reactor.call_later(step.seconds, lambda: self._ask_lease(later))
            return
        record = self.table.actors.get(step.actor)
        if record is None or record.state == control.DEAD:
            return  # while it rested
        lease = LeaseId(os.urandom(8))
        self.table.lease_asked(record.id, lease)
        error = self._workers.ask(record, lease)
        if error is not None:
            self.lease_refused(lease, error)

    def _write_down(self) -> None:
        """Write every change into the journal, before any other process is told of it."""
        self._journal.write_actors(self.table.changed, self.table.actors)
