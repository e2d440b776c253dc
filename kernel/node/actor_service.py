"""Actors on the head: carries out what `kernel.control.actors` decides, and tells callers about changes."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

from kernel.control import actors as control
from kernel.node.lease_desk import LeaseRecord, request_shape
from kernel.runtime import operations as op
from kernel.transport.connection import Connection, Message
from kernel_spec.ids import ActorId, JobId, LeaseId, ProcessId, process_of

if TYPE_CHECKING:
    from kernel.node.agent import Agent


class ActorService:
    """The shell around the actor table. Runs in the agent's loop."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.table = control.ActorTable()
        self._subscribers: dict[ActorId, set[Connection]] = {}
        agent.handlers |= {
            op.CREATE_ACTOR: self._on_create,
            op.ACTOR_ARGUMENTS: lambda c, m: self.carry_out(self.table.arguments_ready(m[1], m[2], m[3])),
            op.FORGET_ACTOR: lambda c, m: self.carry_out(self.table.out_of_scope(m[1])),
            op.SUBSCRIBE_ACTOR: self._on_subscribe,
            op.ACTOR_READY: lambda c, m: self.carry_out(self.table.constructed(m[1], m[2])),
        }
        agent.methods |= {
            "create_named_actor": self._create_named,
            "find_actor": self._find,
            "named_actors": self._named,
            "kill_actor": self._kill,
            "actor_leaves": lambda connection, reason: self.table.ends_itself(connection.info.id, reason),
            "explain_actor": lambda connection, actor: self.explain(actor),
            "actors": lambda connection: pickle.dumps(self.list()),
        }

    # -- messages --------------------------------------------------------------------------------------------------

    def _on_create(self, connection: Connection, message: Message) -> None:
        self._create(connection, message[1], pickle.loads(message[2]))

    def _create_named(self, connection: Connection, actor: ActorId, description: bytes) -> bytes | None:
        """Create an actor, unless one of its name lives and that is fine: return that one's description."""
        said: dict[str, Any] = pickle.loads(description)
        living = self.table.find(said["namespace"], said["name"])
        if living is not None and said["get_if_exists"]:
            return self._describe(living)
        self._create(connection, actor, said)
        return None

    def _create(self, connection: Connection, actor: ActorId, said: dict[str, Any]) -> None:
        job = JobId(said["job"])
        if said["detached"]:
            job = self._agent.jobs.detached(job, said["namespace"])
        said["environment_key"] = self._agent.environment_for(connection, said["environment"])
        self.table.create(control.ActorRecord(actor, job, said["owner"], said))
        self._subscribers.setdefault(actor, set()).add(connection)

    def _on_subscribe(self, connection: Connection, message: Message) -> None:
        actor = message[1]
        owner = self._agent.connections.get(process_of(actor))
        if actor not in self.table.actors and owner is not None:
            # A handle may be faster than the news of its actor. What the owner answers comes after that news.
            self._agent.ask(owner, "ping", lambda answer: self._subscribe(connection, actor))
        else:
            self._subscribe(connection, actor)

    def _subscribe(self, connection: Connection, actor: ActorId) -> None:
        if connection.closed:
            return
        record = self.table.actors.get(actor)
        if record is None:
            connection.send((op.ACTOR_STATE, actor, control.DEAD, b"", "", 0, "it ended long ago", None))
        else:
            if record.state != control.DEAD:
                self._subscribers.setdefault(actor, set()).add(connection)
            connection.send(self._state_message(record))
        connection.flush()

    def _find(self, connection: Connection, name: str, namespace: str) -> bytes | None:
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

    def _named(self, connection: Connection, namespace: str | None) -> list[dict[str, str]]:
        return [{"namespace": ns, "name": name} for ns, name in self.table.names if namespace in (None, ns)]

    def _kill(self, connection: Connection, actor: ActorId, no_restart: bool) -> None:
        self.carry_out(self.table.kill(actor, no_restart))

    # -- events from the agent -------------------------------------------------------------------------------------

    def lease_served(self, lease: LeaseId, record: LeaseRecord) -> None:
        """An actor's lease has its worker."""
        assert record.worker is not None
        self.carry_out(self.table.lease_granted(lease, record.worker))

    def worker_died(self, worker: ProcessId, cause: str) -> None:
        """A process ended."""
        self.carry_out(self.table.worker_died(worker, cause))

    def owner_died(self, connection: Connection) -> None:
        """A process is gone: so are its subscriptions and its actors."""
        for subscribers in self._subscribers.values():
            subscribers.discard(connection)
        self.carry_out(self.table.owner_died(connection.info.id))

    # -- instructions ----------------------------------------------------------------------------------------------

    def carry_out(self, instructions: list[control.Instruction]) -> None:
        """Do what the table decided."""
        for step in instructions:
            if isinstance(step, control.AskLease):
                self._ask_lease(self.table.actors[step.actor])
            elif isinstance(step, control.DropLease):
                self._agent.desk.release(step.lease, broken=True)
            elif isinstance(step, control.Construct):
                self._construct(self.table.actors[step.actor])
            elif isinstance(step, control.EndWorker):
                self._agent.workers.end(step.worker, step.reason, drain=step.drain)
            else:
                self._publish(self.table.actors[step.actor])
        self.table.forget_dead()

    def _ask_lease(self, record: control.ActorRecord) -> None:
        lease = LeaseId(os.urandom(8))
        said = record.description
        self.table.lease_asked(record.id, lease)
        shape = request_shape(said["wanted"], said["strategy"], said["hints"], said["environment_key"])
        self._agent.desk.request(lease, record.job, record.owner, shape, record.label, None)

    def _construct(self, record: control.ActorRecord) -> None:
        worker = self._agent.pool.workers[record.worker]
        self._agent.pool.becomes_actor(record.worker)
        worker.name = record.description["class_name"]
        allocation = self._agent.desk.allocation(record.lease)
        worker.peer.send(
            (op.BECOME_ACTOR, record.id, record.creation, allocation.amounts, allocation.devices, record.attempt)
        )
        worker.peer.flush()

    def _publish(self, record: control.ActorRecord) -> None:
        message = self._state_message(record)
        for connection in list(self._subscribers.get(record.id, ())):
            connection.send(message)
            connection.flush()
        if record.state == control.DEAD:
            self._subscribers.pop(record.id, None)
        self._agent.observe("actor", record.state, record.id, {"name": record.label, "cause": record.cause})

    def _state_message(self, record: control.ActorRecord) -> Message:
        address = self._agent.socket_path(record.worker) if record.worker else ""
        state = control.PENDING if record.state == control.STARTING else record.state
        return (op.ACTOR_STATE, record.id, state, record.worker, address, record.attempt, record.cause, record.failure)

    # -- questions -------------------------------------------------------------------------------------------------

    def explain(self, actor: ActorId) -> str:
        """Say what an actor is waiting for."""
        record = self.table.actors.get(actor)
        if record is None:
            return "no such actor is known (any more)"
        if record.state in (control.PENDING, control.RESTARTING) and record.lease is not None:
            return f"actor {record.label} is {record.state}: {self._agent.desk.explain(record.lease)}"
        if record.state == control.PENDING:
            return f"actor {record.label} waits for the arguments of its constructor"
        if record.state == control.STARTING:
            return f"actor {record.label} is in its constructor on worker {record.worker.hex()[:8]}"
        if record.state == control.DEAD:
            return f"actor {record.label} is dead: {record.cause}"
        worker = self._agent.pool.workers.get(record.worker)
        return f"actor {record.label} is alive, pid {worker.pid if worker is not None else 0}"

    def list(self) -> list[dict[str, Any]]:
        """Return a row per actor."""
        rows = []
        for record in self.table.actors.values():
            worker = self._agent.pool.workers.get(record.worker)
            rows.append(
                {
                    "actor_id": record.id.hex(),
                    "class_name": record.description["class_name"],
                    "name": record.description["name"],
                    "namespace": record.description["namespace"],
                    "state": record.state,
                    "pid": worker.pid if worker is not None else 0,
                    "worker_id": record.worker.hex(),
                    "restarts": record.attempt,
                    "detached": record.description["detached"],
                    "job_id": record.job.hex(),
                    "cause": record.cause,
                }
            )
        return rows
