"""The in-process runtime: what `kernel.init(local_mode=True)` gives.

It behaves as sessions of many processes do, with the same errors, orders and serialization, and differs in when:

* Tasks and the methods of plain actors run in the calling thread at `.remote()`, so `breakpoint()` and profilers
  see one stack. A task runs later, in a helper thread, only when an argument or a resource is not there yet.
* `async def` actors have an event loop in a thread, actors with `max_concurrency` or concurrency groups have
  threads, so that their calls can wait for each other.
* What can never be ready does not hang. `get` without a timeout raises InfeasibleError at once, where it can be
  known (resources that the node lacks, a call that waits for itself), or as soon as nothing runs any more that
  could end the wait; `get` with a timeout raises GetTimeoutError with the same reason.
* Module globals and class attributes are those of one process: what a task changes there, the others see.
* A running plain function can be cancelled only between two steps of the interpreter, and nothing protects the
  program from a task that ends the process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from kernel.runtime import critical_sections, remote_traceback
from kernel.runtime.definitions import ActorOptions, CallOptions, ClassDefinition, FunctionDefinition, function_inside
from kernel.runtime.execution_context import current_execution
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.worker_info import current_worker
from kernel_engine import one_process, signals
from kernel_engine.one_process.core import OneProcessCore
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.task import Task
from kernel_local_mode.actor import LocalActor
from kernel_local_mode.actor_table import LocalActors
from kernel_local_mode.answers.facts import SessionFacts
from kernel_local_mode.answers.table import make_answers
from kernel_local_mode.blocking import BlockedThreads
from kernel_local_mode.cancelling import Cancelling
from kernel_local_mode.deadlock import DeadlockDetector
from kernel_local_mode.environment import LocalEnvironments
from kernel_local_mode.explanation import Explanations
from kernel_local_mode.helpers import Helpers
from kernel_local_mode.objects import LocalObjects
from kernel_local_mode.promises import LocalPromises
from kernel_local_mode.resources import LocalResources
from kernel_local_mode.stream_consumption import LocalStreams
from kernel_local_mode.submission import LocalTasks
from kernel_spec.ids import ActorId
from kernel_spec.labels import labels_of_node

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class LocalRuntime(OneProcessCore):
    """Runs tasks, actors and objects in one process, without any other. See `kernel.runtime.interface.Runtime`."""

    engine = "local"

    def __init__(
        self,
        serializer: ValueSerializer,
        namespace: str,
        node_resources: Mapping[str, float],
        labels: Mapping[str, str] | None = None,
        process: bytes | None = None,
    ) -> None:
        super().__init__(namespace, serializer, process)
        self.labels = labels_of_node(self.node.hex(), labels or {}, node_resources)
        self.helpers = Helpers()
        self.environments = LocalEnvironments(self.session_directory)
        self.resources = LocalResources(node_resources, self.helpers.submit, self.node, self.labels)
        self.generators.later = self.helpers.submit
        self.generators.when_aside = lambda place, aside: self.resources.lend_cpu_of(place.allocation, aside)
        self.actors = LocalActors(
            self.io, self.tasks, self.calls, self.generators, self.resources, self.helpers, self.make_runner,
            self.environments, self.names,
        )  # fmt: skip
        self.promises = LocalPromises(self.tasks, self.ownership, self.resources.groups)
        self.explanations = Explanations(self.calls, self.resources, self.promises.pending)
        self.deadlock = DeadlockDetector(
            self.tasks, self.calls, self.generators, self.actors, self.resources, self.helpers, self.promises.pending,
            self.callers,
        )  # fmt: skip
        blocked_threads = BlockedThreads(
            self.io, self.generators, self.calls, self.resources, self.helpers, self.deadlock, self.explanations
        )
        self.io.pump.on_tick = blocked_threads.on_tick
        objects = LocalObjects(
            self.io, self.ownership, self.store, self.tasks, serializer, blocked_threads, self.deadlock,
            self.explanations,
        )  # fmt: skip
        self.cancelling = Cancelling(self.tasks, self.ownership, self.actors, self.calls, self.helpers, self.generators)
        self.submitter = LocalTasks(
            self.io, self.tasks, self.calls, self.resources, self.helpers, self.environments, self.make_runner(""),
            self.session_namespace,
        )  # fmt: skip
        facts = SessionFacts(
            self.job, self.node, self.process, self.session_namespace, self.labels, self.session_directory, time.time()
        )
        self.answers = make_answers(
            facts, self.tasks, self.trace, self.store, self.resources, self.actors, self.explanations,
            self.environments,
        )  # fmt: skip
        for folder in (_FOLDER, os.path.dirname(os.path.abspath(one_process.__file__))):
            critical_sections.take_in_all(folder)
        critical_sections.guard(self.lock)
        remote_traceback.hide_all(_FOLDER)
        signals.install()
        self._begin(objects, LocalStreams(self.io, objects, self.generators, self.calls, self.deadlock))

    # -- tasks -----------------------------------------------------------------------------------------------------

    def submit(self, function: FunctionDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """See `Runtime.submit`. Runs the task, unless something that it needs is not there yet."""
        self._drain()
        self._export(function)
        captures = current_worker().captures
        if captures is not None and not function.shape.strategy:
            function = function_inside(function, captures)
        task, result = self.tasks.prepare(function, function.max_retries, args, kwargs)
        self.submitter.accept(task)
        return result

    def _export(self, definition: FunctionDefinition | ClassDefinition) -> None:
        if definition.id:
            return
        import hashlib

        target = definition.function if isinstance(definition, FunctionDefinition) else definition.cls
        blob, captured = self.serializer.dumps_function(target)
        definition.blob, definition.captured = blob, list(captured)
        definition.id = hashlib.blake2b(blob, digest_size=12).digest()

    def run_again(self, task: Task) -> None:
        """See `TaskEvents.run_again`."""
        if isinstance(task.place, LocalActor):
            self.actors.retry(task)
        else:
            self.submitter.retry(task)

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """See `Runtime.cancel`."""
        with self.lock:
            self.cancelling.cancel(ref._entry, force, recursive)

    def is_cancelled(self, task: bytes) -> bool:
        """See `Runtime.is_cancelled`. Here also a call of an actor that asks is interrupted."""
        running = self.tasks.running.get(task)
        return running is not None and running.cancelled

    # -- actors ----------------------------------------------------------------------------------------------------

    def create_actor(
        self, definition: ClassDefinition, options: ActorOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ActorId, ObjectRef | None, Mapping[str, Any] | None]:
        """See `Runtime.create_actor`. Constructs the actor, unless something that it needs is not there yet."""
        self._drain()
        self._export(definition)
        options.strategy = options.strategy or current_worker().captures or ""
        constructor = CallOptions(returns=1, name="__init__")
        task, ref = self.tasks.prepare(constructor, 0, args, kwargs, definition.name)
        namespace = options.namespace or self.namespace
        with self.lock:
            self._check_alive()
            if options.name and self.names.find(namespace, options.name) is not None:
                self.ownership.release(task.holds or ())
                task.holds = None
            existing = self.names.existing(namespace, options)
            if existing is not None:
                return ActorId(existing["id"]), None, existing
            environment = self.environments.for_call(options.environment)
            actor = self.actors.create(definition, options, task, namespace, environment)
        self.actors.start_when_ready(actor)
        return actor.id, ref, None

    def call_actor(
        self, actor: ActorId, method: str, options: CallOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See `Runtime.call_actor`."""
        self._drain()
        task, result = self.tasks.prepare(options, options.max_task_retries, args, kwargs)
        task.extra = {"caller": self._caller()}
        with self.lock:
            self._check_alive()
            known = self.actors.actors.get(actor)
            if known is None:
                self.actors.fail_unknown(actor, task)
                return result
            task.actor = known.name
            self.actors.accept(known, task)
        known.kick()
        return result

    def _caller(self) -> bytes:
        """Whose calls stay in order: an actor's, a task's, the program's."""
        return current_worker().actor or current_execution.get().task

    def check_pending_calls(self, actor: ActorId, limit: int) -> None:
        """See `Runtime.check_pending_calls`."""
        self.actors.check_pending_calls(actor, self._caller(), limit)

    def kill_actor(self, actor: ActorId, no_restart: bool) -> None:
        """See `Runtime.kill_actor`."""
        known = self.actors.actors.get(actor)
        if known is not None:
            self.actors.kill(known, no_restart)

    def group_ready(self, group: str, value: Any) -> ObjectRef:
        """See `Runtime.group_ready`."""
        self._drain()
        with self.lock:
            self._check_alive()
            return self.promises.make(group, value)

    # -- about the session -----------------------------------------------------------------------------------------

    def query(self, method: str, *arguments: Any) -> Any:
        """See `Runtime.query`."""
        self._drain()
        return self.answers.ask(method, *arguments)

    def explain(self, ref: ObjectRef) -> str:
        """See `Runtime.explain`."""
        with self.lock:
            return self.explanations.of(ref._entry)

    def end_calls(self) -> None:
        """End the actors, and have everything fail that has not ended."""
        for actor in list(self.actors.actors.values()):
            self.actors.die(actor, str(self.io.ended))
        super().end_calls()

    def shutdown(self) -> None:
        """See `Runtime.shutdown`."""
        super().shutdown()
        critical_sections.unguard(self.lock)
