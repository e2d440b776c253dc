"""Actors on the head: carries out what `kernel_processes.head.actors` decides."""

from __future__ import annotations

import os
import pickle
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_processes.head import actor_records as control
from kernel_processes.head.actor_subscriptions import ActorSubscriptions
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.job_service import JobService
from kernel_processes.head.journal import Journal
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.lease_requests import LeaseRequests, read_strategy
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.worker_orders import WorkerOrders
from kernel_processes.protocol import head_messages
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import ActorId, JobId, LeaseId, ProcessId
from kernel_spec.scheduling import NOWHERE, LeaseRequest


class ActorService:
    """The shell around the actor table. Runs in the head's loop.

    Workers for actors are asked for at `requests` and held at `leases`; `orders` reach them there.
    """

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        table: ActorTable,
        jobs: JobService,
        journal: Journal,
        leases: LeaseManager,
        requests: LeaseRequests,
        orders: WorkerOrders,
        subscriptions: ActorSubscriptions,
        reactor: Reactor,
    ) -> None:
        self.table = table
        self._callers = cluster.callers
        self._jobs = jobs
        self._journal = journal
        self._leases = leases
        self._requests = requests
        self._orders = orders
        self._subscriptions = subscriptions
        self._reactor = reactor
        dispatcher.handlers |= {
            number_of(op.CreateActor): self._on_create,
            number_of(op.ActorArguments): self._on_arguments,
            number_of(op.ForgetActor): self._on_forget,
            number_of(op.ActorReady): self._on_ready,
        }
        dispatcher.methods |= {
            "create_named_actor": self._create_named,
            "find_actor": self._find,
            "kill_actor": lambda caller, actor, no_restart: self.carry_out(table.kill(actor, no_restart)),
            "actor_leaves": lambda caller, reason: table.ends_itself(caller.id, reason),
        }

    # -- messages --------------------------------------------------------------------------------------------------

    def _on_create(self, caller: ProcessRecord, message: Message) -> None:
        said = unpacked(op.CreateActor, message)
        self._create(caller, said.actor, pickle.loads(said.description))

    def _on_arguments(self, caller: ProcessRecord, message: Message) -> None:
        self.carry_out(self.table.arguments_ready(*unpacked(op.ActorArguments, message)))

    def _on_forget(self, caller: ProcessRecord, message: Message) -> None:
        self.carry_out(self.table.out_of_scope(unpacked(op.ForgetActor, message).actor))

    def _on_ready(self, caller: ProcessRecord, message: Message) -> None:
        self.carry_out(self.table.constructed(*unpacked(op.ActorReady, message)))

    def _create_named(self, caller: ProcessRecord, actor: ActorId, description: bytes) -> bytes | None:
        """Create an actor, unless one of its name lives and that is fine: return that one's description."""
        said: dict[str, Any] = pickle.loads(description)
        living = self.table.find(said["namespace"], said["name"])
        if living is not None and living.id != actor and said["get_if_exists"]:
            return _describe(living)
        self._create(caller, actor, said)
        return None

    def _create(self, caller: ProcessRecord, actor: ActorId, said: dict[str, Any]) -> None:
        job = JobId(said["job"])
        if said["detached"]:
            job = self._jobs.detached(job, said["namespace"])
        said["environment_key"] = self._jobs.environment_for(caller, said["environment"])
        if actor not in self.table.actors:  # else it is told once more, after the death of a head
            self.table.create(control.ActorRecord(actor, job, said["owner"], said))
            self._write_down()
        self._subscriptions.add(caller, actor)

    def _find(self, caller: ProcessRecord, name: str, namespace: str) -> bytes | None:
        record = self.table.find(namespace, name)
        return _describe(record) if record is not None else None

    # -- events ----------------------------------------------------------------------------------------------------

    def lease_served(self, lease: LeaseId, worker: ProcessId) -> None:
        """An actor's lease has its worker."""
        self.carry_out(self.table.lease_granted(lease, worker))

    def lease_refused(self, lease: LeaseId, failure: tuple[int, bytes], cause: str) -> None:
        """There will be no worker for an actor's lease."""
        self.carry_out(self.table.lease_failed(lease, failure, cause))

    def place_lost(self, lease: LeaseId, reason: str) -> None:
        """The placement group that an actor's lease is in is gone."""
        self.carry_out(self.table.place_lost(lease, reason))

    def worker_died(self, worker: ProcessId, cause: str, fault: int = op.DIED) -> None:
        """A process ended; `fault` says what that means (see `process_messages`)."""
        self.carry_out(self.table.worker_died(worker, cause, fault))

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone: so are its subscriptions and its actors."""
        self._subscriptions.process_left(caller)
        self.carry_out(self.table.owner_died(caller.id))

    def resume(self) -> None:
        """After the death of a head: go on with what is left."""
        callers, leases = self._callers, self._leases.leases
        self.carry_out(self.table.resume(callers, leases, callers))
        for lease in list(self.table.leases):
            if lease in leases and (worker := leases[lease].worker) is not None:
                self.lease_served(lease, worker)
        self._subscriptions.answer_waiting()

    # -- instructions ----------------------------------------------------------------------------------------------

    def carry_out(self, instructions: list[control.Instruction]) -> None:
        """Do what the table decided."""
        for step in instructions:
            if isinstance(step, control.AskLease):
                self._ask_lease(step)
            elif isinstance(step, control.DropLease):
                self._leases.release(step.lease, broken=True)
            elif isinstance(step, control.Construct):
                self._construct(self.table.actors[step.actor])
            elif isinstance(step, control.EndWorker):
                message = packed(
                    head_messages.StopWorker(
                        worker=step.worker, reason=step.reason, drain=step.drain, kindly=step.kindly
                    )
                )
                self._orders.tell_node_of(step.worker, message)
            else:
                self._subscriptions.publish(self.table.actors[step.actor])
        self.table.forget_dead()
        self._write_down()

    def _write_down(self) -> None:
        """Write every change into the journal, before any other process is told of it."""
        journal, changed = self._journal, self.table.changed
        while changed:
            actor = changed.pop()
            record = self.table.actors.get(actor)
            if record is None:
                journal.forget_actor(actor)
            else:
                journal.actor(record)

    def _ask_lease(self, step: control.AskLease) -> None:
        if step.seconds:
            later = control.AskLease(step.actor)
            self._reactor.call_later(step.seconds, lambda: self._ask_lease(later))
            return
        record = self.table.actors.get(step.actor)
        if record is None or record.state == control.DEAD:
            return  # while it rested
        lease = LeaseId(os.urandom(8))
        said = record.description
        self.table.lease_asked(record.id, lease)
        owner = self._callers.get(record.owner)
        request = LeaseRequest(
            lease,
            record.job,
            record.owner,
            said["wanted"],
            record.label,
            for_actor=True,
            environment=said["environment_key"],
            origin=owner.node.id if owner is not None else NOWHERE,
            **read_strategy(said["placing"]),
        )
        self._requests.ask(request, None)

    def _construct(self, record: control.ActorRecord) -> None:
        allocation = self._leases.allocation(record.lease)
        held = allocation.amounts, allocation.devices, record.description["group"]
        message = packed(op.BecomeActor(actor=record.id, creation=record.creation, held=held, attempt=record.attempt))
        class_name, restarts = record.description["class_name"], record.restarts_left
        self._orders.tell_node_of(
            record.worker,
            packed(
                head_messages.ConstructActor(
                    worker=record.worker, class_name=class_name, restarts=restarts, message=message
                )
            ),
        )


def _describe(record: control.ActorRecord) -> bytes:
    """Return what a process needs for a handle of an actor that it has found by name."""
    said = record.description
    return pickle.dumps(
        {
            "id": record.id,
            "definition": said["definition"],
            "max_pending_calls": said["max_pending_calls"],
            "owner": record.owner,
            "owner_address": said["owner_address"],
            "detached": said["detached"],
            "name": said["name"],
        }
    )
