"""Actors on the head: carries out what `kernel.head.actors` decides, and tells callers about changes."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

from kernel.head import actor_records as control
from kernel.head.actors import ActorTable
from kernel.head.lease_manager import LeaseRecord
from kernel.head.lease_requests import read_strategy
from kernel.head.nodes import Caller
from kernel.protocol import head_messages
from kernel.protocol import process_messages as op
from kernel.protocol.named_messages import number_of, packed, unpacked
from kernel.protocol.pickled import Pickled
from kernel.transport.connection import Message
from kernel_spec import observers
from kernel_spec.ids import ActorId, JobId, LeaseId, ProcessId, process_of
from kernel_spec.resources import quantities
from kernel_spec.scheduling import NOWHERE, LeaseRequest

if TYPE_CHECKING:
    from kernel.head.head import Head


class ActorService:
    """The shell around the actor table. Runs in the head's loop."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self.table = ActorTable()
        self._subscribers: dict[ActorId, set[Caller]] = {}
        self._unanswered: list[tuple[Caller, ActorId]] = []
        head.handlers |= {
            number_of(op.CreateActor): self._on_create,
            number_of(op.ActorArguments): self._on_arguments,
            number_of(op.ForgetActor): self._on_forget,
            number_of(op.SubscribeActor): self._on_subscribe,
            number_of(op.ActorReady): self._on_ready,
        }
        head.methods |= {
            "create_named_actor": self._create_named,
            "find_actor": self._find,
            "named_actors": self._named,
            "kill_actor": self._kill,
            "actor_leaves": lambda caller, reason: self.table.ends_itself(caller.id, reason),
            "place_of_actor": lambda caller, actor: self._place(actor),
            "explain_actor": lambda caller, actor: self.explain(actor),
            "actors": lambda caller, dead=True: Pickled.of(self.list(dead)),
        }

    # -- messages --------------------------------------------------------------------------------------------------

    def _on_create(self, caller: Caller, message: Message) -> None:
        said = unpacked(op.CreateActor, message)
        self._create(caller, said.actor, pickle.loads(said.description))

    def _on_arguments(self, caller: Caller, message: Message) -> None:
        self.carry_out(self.table.arguments_ready(*unpacked(op.ActorArguments, message)))

    def _on_forget(self, caller: Caller, message: Message) -> None:
        self.carry_out(self.table.out_of_scope(unpacked(op.ForgetActor, message).actor))

    def _on_ready(self, caller: Caller, message: Message) -> None:
        self.carry_out(self.table.constructed(*unpacked(op.ActorReady, message)))

    def _create_named(self, caller: Caller, actor: ActorId, description: bytes) -> bytes | None:
        """Create an actor, unless one of its name lives and that is fine: return that one's description."""
        said: dict[str, Any] = pickle.loads(description)
        living = self.table.find(said["namespace"], said["name"])
        if living is not None and living.id != actor and said["get_if_exists"]:
            return self._describe(living)
        self._create(caller, actor, said)
        return None

    def _create(self, caller: Caller, actor: ActorId, said: dict[str, Any]) -> None:
        job = JobId(said["job"])
        if said["detached"]:
            job = self._head.jobs.detached(job, said["namespace"])
            self._head.journal.job(self._head.jobs.get(job))
        said["environment_key"] = self._head.requests.environment_for(caller, said["environment"])
        if actor not in self.table.actors:  # else it is told once more, after the death of a head
            self.table.create(control.ActorRecord(actor, job, said["owner"], said))
            self._write_down()
        self._subscribers.setdefault(actor, set()).add(caller)

    def _on_subscribe(self, caller: Caller, message: Message) -> None:
        actor = unpacked(op.SubscribeActor, message).actor
        owner = self._head.callers.get(process_of(actor))
        if actor not in self.table.actors and owner is not None:
            # A handle may be faster than the news of its actor. What the owner answers comes after that news.
            self._head.ask(owner, "ping", lambda answer: self._subscribe(caller, actor))
        else:
            self._subscribe(caller, actor)

    def _subscribe(self, caller: Caller, actor: ActorId) -> None:
        if caller.closed:
            return
        record = self.table.actors.get(actor)
        head = self._head
        if head.recovery.active and (record is None or (record.worker and record.worker not in head.callers)):
            self._unanswered.append((caller, actor))  # the node of its process, or of its owner, is still to come back
            return
        if record is None:
            caller.send(
                packed(
                    op.ActorState(
                        actor=actor,
                        state=control.DEAD,
                        worker=ProcessId(b""),
                        address="",
                        attempt=0,
                        cause="it ended long ago",
                        failure=None,
                        crashed=False,
                    )
                )
            )
        else:
            if record.state != control.DEAD:
                self._subscribers.setdefault(actor, set()).add(caller)
            caller.send(self._state_message(record))

    def _find(self, caller: Caller, name: str, namespace: str) -> bytes | None:
        record = self.table.find(namespace, name)
        return self._describe(record) if record is not None else None

    def _describe(self, record: control.ActorRecord) -> bytes:
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

    def _named(self, caller: Caller, namespace: str | None) -> list[dict[str, str]]:
        return [{"namespace": ns, "name": name} for ns, name in self.table.names if namespace in (None, ns)]

    def _kill(self, caller: Caller, actor: ActorId, no_restart: bool) -> None:
        self.carry_out(self.table.kill(actor, no_restart))

    # -- events from the head -------------------------------------------------------------------------------------

    def lease_served(self, lease: LeaseId, record: LeaseRecord) -> None:
        """An actor's lease has its worker."""
        assert record.worker is not None
        self.carry_out(self.table.lease_granted(lease, record.worker))

    def worker_died(self, worker: ProcessId, cause: str, fault: int = op.DIED) -> None:
        """A process ended; `fault` says what that means (see `process_messages`)."""
        self.carry_out(self.table.worker_died(worker, cause, fault))

    def owner_died(self, caller: Caller) -> None:
        """A process is gone: so are its subscriptions and its actors."""
        for subscribers in self._subscribers.values():
            subscribers.discard(caller)
        self.carry_out(self.table.owner_died(caller.id))

    def resume(self) -> None:
        """After the death of a head: go on with what is left."""
        head = self._head
        self.carry_out(self.table.resume(head.callers, head.lease_manager.leases, head.callers))
        for lease in list(self.table.leases):
            if lease in head.lease_manager.leases:
                head.leases.tell_of_worker(lease, head.lease_manager.leases[lease])
        unanswered, self._unanswered = self._unanswered, []
        for caller, actor in unanswered:
            self._subscribe(caller, actor)

    # -- instructions ----------------------------------------------------------------------------------------------

    def carry_out(self, instructions: list[control.Instruction]) -> None:
        """Do what the table decided."""
        for step in instructions:
            if isinstance(step, control.AskLease):
                self._ask_lease(step)
            elif isinstance(step, control.DropLease):
                self._head.lease_manager.release(step.lease, broken=True)
            elif isinstance(step, control.Construct):
                self._construct(self.table.actors[step.actor])
            elif isinstance(step, control.EndWorker):
                message = packed(
                    head_messages.StopWorker(
                        worker=step.worker, reason=step.reason, drain=step.drain, kindly=step.kindly
                    )
                )
                self._tell_node_of(step.worker, message)
            else:
                self._publish(self.table.actors[step.actor])
        self.table.forget_dead()
        self._write_down()

    def _write_down(self) -> None:
        """Let the journal know of every change, before anybody else hears of it."""
        journal, changed = self._head.journal, self.table.changed
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
            self._head.reactor.call_later(step.seconds, lambda: self._ask_lease(later))
            return
        record = self.table.actors.get(step.actor)
        if record is None or record.state == control.DEAD:
            return  # while it rested
        lease = LeaseId(os.urandom(8))
        said = record.description
        self.table.lease_asked(record.id, lease)
        owner = self._head.callers.get(record.owner)
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
        self._head.requests.ask(request, None)

    def _construct(self, record: control.ActorRecord) -> None:
        allocation = self._head.lease_manager.allocation(record.lease)
        held = allocation.amounts, allocation.devices, record.description["group"]
        message = packed(op.BecomeActor(actor=record.id, creation=record.creation, held=held, attempt=record.attempt))
        class_name, restarts = record.description["class_name"], record.restarts_left
        self._tell_node_of(
            record.worker,
            packed(
                head_messages.ConstructActor(
                    worker=record.worker, class_name=class_name, restarts=restarts, message=message
                )
            ),
        )

    def _tell_node_of(self, worker: ProcessId, message: Message) -> None:
        caller = self._head.callers.get(worker)
        if caller is not None:
            caller.node.send(message)

    def _publish(self, record: control.ActorRecord) -> None:
        message = self._state_message(record)
        for caller in list(self._subscribers.get(record.id, ())):
            caller.send(message)
        if record.state == control.DEAD:
            self._subscribers.pop(record.id, None)
        self._head.observe(observers.ACTOR, record.state, record.id, {"name": record.label, "cause": record.cause})

    def _state_message(self, record: control.ActorRecord) -> Message:
        worker = self._head.callers.get(record.worker)
        address = worker.address if worker is not None else ""
        state = control.PENDING if record.state == control.STARTING else record.state
        place = record.worker, address
        return packed(
            op.ActorState(record.id, state, *place, record.attempt, record.cause, record.failure, record.crashed)
        )

    # -- questions -------------------------------------------------------------------------------------------------

    def _place(self, actor: ActorId) -> tuple[ProcessId, str] | None:
        """Return the process of an actor and where it is reached, also while its constructor runs."""
        record = self.table.actors.get(actor)
        worker = self._head.callers.get(record.worker) if record is not None else None
        return (worker.id, worker.address) if worker is not None else None

    def explain(self, actor: ActorId) -> str:
        """Say what an actor is waiting for."""
        record = self.table.actors.get(actor)
        if record is None:
            return "no such actor is known (any more)"
        if record.state in (control.PENDING, control.RESTARTING) and record.lease is not None:
            return f"actor {record.label} is {record.state}: {self._head.lease_manager.explain(record.lease)}"
        if record.state == control.RESTARTING:
            return f"actor {record.label} rests before it is restarted: {record.cause}"
        if record.state == control.PENDING:
            return f"actor {record.label} waits for the arguments of its constructor"
        if record.state == control.STARTING:
            return f"actor {record.label} is in its constructor on worker {record.worker.hex()[:8]}"
        if record.state == control.DEAD:
            return f"actor {record.label} is dead: {record.cause}"
        worker = self._head.callers.get(record.worker)
        return f"actor {record.label} is alive, pid {worker.pid if worker is not None else 0}"

    def list(self, dead: bool = True) -> list[dict[str, Any]]:
        """Return a row per actor, of those that have died only with `dead`."""
        rows = []
        for record in self.table.actors.values():
            if record.state == control.DEAD and not dead:
                continue
            worker = self._head.callers.get(record.worker)
            rows.append(
                {
                    "actor_id": record.id.hex(),
                    "class_name": record.description["class_name"],
                    "name": record.description["name"],
                    "namespace": record.description["namespace"],
                    "state": record.state,
                    "pid": worker.pid if worker is not None else 0,
                    "node_id": worker.node.id.hex() if worker is not None else "",
                    "worker_id": record.worker.hex(),
                    "workers": [worker.hex() for worker in record.workers],
                    "restarts": record.attempt,
                    "detached": record.description["detached"],
                    "job_id": record.job.hex(),
                    "cause": record.cause,
                    "required_resources": quantities(record.description["wanted"]),
                    "placement_group_id": (record.description["group"] or {}).get("group"),
                }
            )
        return rows
