"""Create actors: register a new one with the head, and send its process the arguments of its constructor.

An actor is registered at once, so that its name is taken and every handle finds it; the arguments of its
constructor follow when they are ready.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from typing import Any

from kernel.runtime.definitions import ActorOptions, ClassDefinition, group_of
from kernel.runtime.object_entry import INLINE, ObjectEntry
from kernel_engine.failures.failed_arguments import argument_failed
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_engine.objects.value_placement import inline
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_processes.runtime.actor_calls import ActorCaller
from kernel_processes.runtime.process import Process
from kernel_spec.ids import ActorId, JobId


class ActorCreator:
    """Announces actors and sends their arguments."""

    def __init__(self, process: Process, table: TaskTable, caller: ActorCaller, job: JobId) -> None:
        self._process = process
        self._table = table
        self._caller = caller
        self._job = job

    def create(
        self, constructor: Task, definition: ClassDefinition, options: ActorOptions, namespace: str
    ) -> Mapping[str, Any] | None:
        """Create an actor; return None, or the description of the one that has its name and may be used instead.

        Raises NameTakenError. Not under the lock.
        """
        actor = ActorId(bytes(constructor.id))
        description = self._describe(definition, options, namespace)
        if options.name:
            try:
                found = self._process.call_agent("create_named_actor", actor, pickle.dumps(description))
            except BaseException:
                self._give_up(constructor)
                raise
            if found is not None:
                self._give_up(constructor)
                return pickle.loads(found)  # type: ignore[no-any-return]
        with self._process.lock:
            constructor.weight = 0  # Its arguments stay as long as the actor.
            self._table.register(constructor)
            channel = self._caller.channel(actor, definition.name, subscribe=False)
            channel.subscribed = True
            channel.detached = options.detached
            entry: ObjectEntry = constructor.entries  # type: ignore[assignment]
            head, buffers, _ = self._table.serializer.dumps(None)
            entry.resolve(INLINE, inline(head, buffers))
            # The arguments, and what the class closes over, stay alive as long as the actor may be constructed again.
            captured = [ref._entry for ref in definition.captured]
            self._table.ownership.hold(captured)
            entry.more().contained, constructor.holds = [*(constructor.holds or ()), *captured], None
            self._caller.count_handles(channel, entry)

            def send(task: Task) -> None:
                self._send_arguments(task, definition, options, description)

            ready = self._table.arguments.resolve(constructor, send)
            if not options.name:
                self._process.tell_agent(packed(op.CreateActor(actor=actor, description=pickle.dumps(description))))
            if ready:
                send(constructor)
        return None

    def _give_up(self, constructor: Task) -> None:
        held, constructor.holds = constructor.holds, None
        if held:
            with self._process.lock:
                self._table.ownership.release(held)

    def _send_arguments(
        self, constructor: Task, definition: ClassDefinition, options: ActorOptions, description: dict[str, Any]
    ) -> None:
        failure = self._table.arguments.failure(constructor)
        actor, creation = ActorId(bytes(constructor.id)), b""
        if failure is None:
            creation = self._pack(constructor, definition, options, description)
        else:  # The constructor's failure, which comes back from the head, says the same.
            self._table.failures.settled(failure)
            failure = argument_failed(failure, definition.name, actor, self._process.identity, os.getpid())
        self._process.tell_agent(packed(op.ActorArguments(actor=actor, creation=creation, failure=failure)))

    def _describe(self, definition: ClassDefinition, options: ActorOptions, namespace: str) -> dict[str, Any]:
        return {
            "name": options.name,
            "namespace": namespace,
            "get_if_exists": options.get_if_exists,
            "detached": options.detached,
            "max_restarts": options.max_restarts,
            "wanted": options.wanted,
            "placing": pickle.dumps((options.strategy, dict(options.hints))),
            "group": group_of(options.strategy),
            "environment": options.environment,
            "class_name": definition.name,
            "job": self._job,
            "owner": self._process.id,
            "owner_address": self._process.address,
            "definition": (definition.name, definition.methods, definition.is_async, options.max_task_retries),
            "max_pending_calls": options.max_pending_calls,
        }

    def _pack(
        self, constructor: Task, definition: ClassDefinition, options: ActorOptions, description: dict[str, Any]
    ) -> bytes:
        return pickle.dumps(
            {
                "id": definition.id,
                "blob": definition.blob,
                "name": definition.name,
                "is_async": definition.is_async,
                "arguments": constructor.arguments,
                "slots": self._table.arguments.message(constructor),
                "max_concurrency": options.max_concurrency,
                "concurrency_groups": dict(options.concurrency_groups),
                "namespace": description["namespace"],
                "caller": (self._process.id, self._process.address),
                "description": {
                    "id": bytes(constructor.id),
                    "definition": description["definition"],
                    "max_pending_calls": options.max_pending_calls,
                    "owner": self._process.id,
                    "owner_address": self._process.address,
                    "detached": options.detached,
                    "name": options.name,
                },
            }
        )
