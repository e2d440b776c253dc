"""Requests of processes about actors: create them, find them by name, end them."""

from __future__ import annotations

import pickle
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, unpacked
from kernel_processes.head.actor_records import ActorRecord
from kernel_processes.head.actor_service import ActorService
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.job_service import JobService
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_spec.ids import ActorId, JobId


class ActorRequests:
    """Handles requests about the actors in `table` and has `actors` carry them out. Runs in the head's loop."""

    def __init__(
        self, dispatcher: MessageDispatcher, table: ActorTable, actors: ActorService, jobs: JobService
    ) -> None:
        self._table = table
        self._actors = actors
        self._jobs = jobs
        dispatcher.handlers |= {
            number_of(op.CreateActor): self._on_create,
            number_of(op.ActorArguments): self._on_arguments,
            number_of(op.ForgetActor): self._on_forget,
            number_of(op.ActorReady): self._on_ready,
        }
        dispatcher.methods |= {
            "create_named_actor": self._create_named,
            "find_actor": self._find,
            "kill_actor": lambda caller, actor, no_restart: actors.carry_out(table.kill(actor, no_restart)),
            "actor_leaves": lambda caller, reason: table.ends_itself(caller.id, reason),
        }

    def _on_create(self, caller: ProcessRecord, message: Message) -> None:
        said = unpacked(op.CreateActor, message)
        self._create(caller, said.actor, pickle.loads(said.description))

    def _on_arguments(self, caller: ProcessRecord, message: Message) -> None:
        self._actors.carry_out(self._table.arguments_ready(*unpacked(op.ActorArguments, message)))

    def _on_forget(self, caller: ProcessRecord, message: Message) -> None:
        self._actors.carry_out(self._table.out_of_scope(unpacked(op.ForgetActor, message).actor))

    def _on_ready(self, caller: ProcessRecord, message: Message) -> None:
        self._actors.carry_out(self._table.constructed(*unpacked(op.ActorReady, message)))

    def _create_named(self, caller: ProcessRecord, actor: ActorId, description: bytes) -> bytes | None:
        """Create an actor, or with `get_if_exists` return the description of the living actor with its name."""
        said: dict[str, Any] = pickle.loads(description)
        living = self._table.find(said["namespace"], said["name"])
        if living is not None and living.id != actor and said["get_if_exists"]:
            return _describe(living)
        self._create(caller, actor, said)
        return None

    def _create(self, caller: ProcessRecord, actor: ActorId, said: dict[str, Any]) -> None:
        job = JobId(said["job"])
        if said["detached"]:
            job = self._jobs.detached(job, said["namespace"])
        said["environment_key"] = self._jobs.environment_for(caller, said["environment"])
        self._actors.create(ActorRecord(actor, job, said["owner"], said), caller)

    def _find(self, caller: ProcessRecord, name: str, namespace: str) -> bytes | None:
        record = self._table.find(namespace, name)
        return _describe(record) if record is not None else None


def _describe(record: ActorRecord) -> bytes:
    """Return the description from which a process makes a handle of an actor that it has found by name."""
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
