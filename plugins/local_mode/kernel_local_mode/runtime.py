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
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import kernel_engine.own_code  # noqa: F401  (before anything of it can be interrupted)
from kernel.runtime import critical_sections, remote_traceback
from kernel.runtime.current import find_runtime, set_runtime
from kernel.runtime.definitions import ActorOptions, CallOptions, ClassDefinition, FunctionDefinition, function_inside
from kernel.runtime.execution_context import NO_EXECUTION, current_execution
from kernel.runtime.object_entry import FAILED, PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import ObjectStream
from kernel.runtime.worker_info import current_worker
from kernel_engine import signals
from kernel_engine.failures.failures import failure_of
from kernel_engine.objects.futures import Futures
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_engine.tasks.tracing import CallTrace
from kernel_local_mode.actor import LocalActor
from kernel_local_mode.actor_table import LocalActors
from kernel_local_mode.answers.facts import SessionFacts
from kernel_local_mode.answers.table import make_answers
from kernel_local_mode.blocking import BlockedThreads
from kernel_local_mode.calls import LocalCalls
from kernel_local_mode.cancelling import Cancelling
from kernel_local_mode.deadlock import DeadlockDetector
from kernel_local_mode.environment import LocalEnvironments
from kernel_local_mode.explanation import Explanations
from kernel_local_mode.helpers import Helpers
from kernel_local_mode.in_process_transport import InProcessTransport, LocalOwnership, LocalStore
from kernel_local_mode.objects import LocalObjects
from kernel_local_mode.promises import LocalPromises
from kernel_local_mode.resources import LocalResources
from kernel_local_mode.stream_consumption import LocalStreams
from kernel_local_mode.streaming import LocalStreaming
from kernel_local_mode.submission import LocalTasks
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import ActorId, JobId, NodeId, ObjectId, ProcessId
from kernel_spec.labels import labels_of_node

_FOLDER = os.path.dirname(os.path.abspath(__file__))

JANITOR_SECONDS = 0.25
"""How often references and streams that were dropped are looked after when nothing else happens."""


class LocalRuntime:
    """Tasks, actors and objects of one process that is all there is. See `kernel.runtime.interface.Runtime`."""

    local_mode = True

    def __init__(
        self,
        serializer: ValueSerializer,
        namespace: str,
        node_resources: Mapping[str, float],
        labels: Mapping[str, str] | None = None,
        process: bytes | None = None,
    ) -> None:
        self.process = ProcessId(process or os.urandom(8))
        self.job = JobId(self.process)
        self.node = NodeId(os.urandom(8))
        self.labels = labels_of_node(self.node.hex(), labels or {}, node_resources)
        self.session_directory = tempfile.mkdtemp(prefix="kernel-local-")
        self.serializer = serializer
        self.session_namespace = namespace or self.process.hex()
        self.io = InProcessTransport(self.process, self.node)
        self.identity = self.io.identity
        self.lock = self.io.lock
        self.store = LocalStore()
        self.ownership = LocalOwnership(self.io, self.store)  # type: ignore[arg-type]
        self.tasks = TaskTable(self.io, self.ownership, self.store, serializer, self)  # type: ignore[arg-type]
        self.trace = CallTrace()
        self.helpers = Helpers()
        self.environments = LocalEnvironments(self.session_directory)
        self.resources = LocalResources(node_resources, self.helpers.submit, self.node, self.labels)
        self.streaming = LocalStreaming(self.io, self.helpers.submit, self.resources.lend_cpu_of)
        self.calls = LocalCalls(self.io, self.tasks, self.streaming, self.trace)
        self.actors = LocalActors(
            self.io, self.tasks, self.calls, self.streaming, self.resources, self.helpers,
            self._make_runner, self.environments,
        )  # fmt: skip
        self.promises = LocalPromises(self.tasks, self.ownership, self.resources.groups)
        self.explanations = Explanations(self.calls, self.resources, self.promises.pending)
        self.callers: set[int] = set()
        self.deadlock = DeadlockDetector(
            self.tasks, self.calls, self.streaming, self.actors, self.resources, self.helpers, self.promises.pending,
            self.callers,
        )  # fmt: skip
        blocked_threads = BlockedThreads(
            self.io, self.streaming, self.calls, self.resources, self.helpers, self.deadlock, self.explanations
        )
        self.io.pump.on_tick = blocked_threads.on_tick
        self.objects = self.values = LocalObjects(
            self.io,
            self.ownership,
            self.store,
            self.tasks,
            serializer,
            blocked_threads,
            self.deadlock,
            self.explanations,
        )
        futures = Futures(self.objects.when_ready, self.objects.load, self.tasks.failures.asked)
        self.deliver = futures.deliver
        self.deliver_async = futures.deliver_async
        self.cancelling = Cancelling(self.tasks, self.ownership, self.actors, self.calls, self.helpers, self.streaming)
        self.submitter = LocalTasks(
            self.io, self.tasks, self.calls, self.resources, self.helpers, self.environments, self._make_runner(""),
            self.session_namespace,
        )  # fmt: skip
        facts = SessionFacts(
            self.job, self.node, self.process, self.session_namespace, self.labels, self.session_directory, time.time()
        )
        self.answers = make_answers(
            facts, self.tasks, self.trace, self.store, self.resources, self.actors, self.explanations,
            self.environments,
        )  # fmt: skip
        self.streams = LocalStreams(self.io, self.objects, self.streaming, self.calls, self.deadlock)
        self.item_arrival = self.streams.item_arrival
        self._forever: list[ObjectRef] = []
        self._stopped = threading.Event()
        critical_sections.take_in_all(_FOLDER)
        critical_sections.guard(self.lock)
        remote_traceback.hide_all(_FOLDER)
        signals.install()
        threading.Thread(target=self._look_after_dropped, name="kernel-local-janitor", daemon=True).start()

    def _make_runner(self, actor_name: str) -> CallRunner:
        """Return what packs and unpacks the values of calls."""
        runner = CallRunner(self)  # type: ignore[arg-type]
        runner.actor_name = actor_name or None
        return runner

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

    def task_ended(self, task: Task) -> None:
        """See `TaskEvents.task_ended`. What it ran on is given back where it ran."""

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
        with self.lock:
            self._check_alive()
            environment = self.environments.for_call(options.environment)
            namespace = options.namespace or self.namespace
            actor, existing = self.actors.create(definition, options, task, namespace, environment)
        if existing is None:
            self.actors.start_when_ready(actor)
            return actor.id, ref, None
        return existing.id, None, existing.description

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

    def watch_actor(self, actor: ActorId, name: str = "") -> None:
        """Every actor is known here already."""

    def find_actor(self, name: str, namespace: str | None) -> Mapping[str, Any] | None:
        """See `Runtime.find_actor`."""
        self._drain()
        with self.lock:
            found = self.actors.find(namespace or self.namespace, name)
            return found.description if found is not None else None

    def list_named_actors(self, all_namespaces: bool) -> list[dict[str, str]]:
        """See `Runtime.list_named_actors`."""
        self._drain()
        with self.lock:
            names = list(self.actors.names)
        return [{"namespace": ns, "name": name} for ns, name in names if all_namespaces or ns == self.namespace]

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

    # -- objects ---------------------------------------------------------------------------------------------------

    def put(self, value: Any, weak: bool = False) -> ObjectRef:
        """See `Runtime.put`. Space is never short, so weak objects stay as long as their references."""
        self._drain()
        return self.objects.put(value, weak, 3)

    def get(self, refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
        """See `Runtime.get`; raises InfeasibleError for what can never be ready."""
        self._drain()
        return self.objects.get(refs, timeout)

    def get_one(self, ref: ObjectRef, timeout: float | None) -> Any:
        """See `Runtime.get_one`."""
        return self.get([ref], timeout)[0]

    def wait(
        self, refs: Sequence[ObjectRef], num_returns: int, timeout: float | None, fetch_local: bool
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """See `Runtime.wait`; raises InfeasibleError like `get`."""
        self._drain()
        return self.objects.wait(refs, num_returns, timeout, fetch_local)

    def adopt(self, id: ObjectId, owner: ProcessId, address: str) -> ObjectRef:
        """See `Runtime.adopt`."""
        return self.ownership.adopt(ObjectId(id), self.process, "", None)

    def owner_of(self, ref: ObjectRef) -> tuple[ProcessId, str]:
        """See `Runtime.owner_of`."""
        return self.process, ""

    def pin_forever(self, ref: ObjectRef) -> None:
        """See `Runtime.pin_forever`."""
        self._forever.append(ref)

    def answer_promptly(self) -> None:
        """See `Runtime.answer_promptly`. There is no other process."""

    # -- streams ---------------------------------------------------------------------------------------------------

    def next_item(self, stream: ObjectStream, timeout: float | None) -> ObjectRef:
        """See `Runtime.next_item`."""
        return self.streams.next_item(stream, timeout)

    def take_item(self, stream: ObjectStream) -> tuple[ObjectRef | None, bool]:
        """See `Runtime.take_item`."""
        return self.streams.take_item(stream)

    def next_arrival(self, stream: ObjectStream) -> ObjectEntry:
        """See `Runtime.next_arrival`."""
        return self.streams.next_arrival(stream)

    def close_stream(self, stream: ObjectStream) -> None:
        """See `Runtime.close_stream`."""
        self.streams.close(stream)

    # -- about the session -----------------------------------------------------------------------------------------

    @property
    def namespace(self) -> str:
        """The namespace of the actor that asks, else the session's."""
        return current_worker().namespace or self.session_namespace

    @property
    def is_driver(self) -> bool:
        """Whether the program asks, not a task or actor of it."""
        return current_execution.get() is NO_EXECUTION and not current_worker().actor

    def query(self, method: str, *arguments: Any) -> Any:
        """See `Runtime.query`."""
        self._drain()
        return self.answers.ask(method, *arguments)

    def explain(self, ref: ObjectRef) -> str:
        """See `Runtime.explain`."""
        with self.lock:
            return self.explanations.of(ref._entry)

    def current_actor(self) -> bytes:
        """See `Runtime.current_actor`."""
        return current_worker().actor

    def describe_current_actor(self) -> Mapping[str, Any] | None:
        """See `Runtime.describe_current_actor`."""
        return current_worker().description

    def trace_span(self, name: str, begun: float, ended: float, extra: dict[str, Any]) -> None:
        """See `Runtime.trace_span`."""
        self.trace.add(name, begun, ended, b"", extra)

    def shutdown(self) -> None:
        """See `Runtime.shutdown`."""
        if find_runtime() is self:
            set_runtime(None)
        self._drain()
        self.tasks.failures.close()
        with self.lock:
            self.io.ended = "the session was shut down"
            for actor in list(self.actors.actors.values()):
                self.actors.die(actor, self.io.ended)
            failure = failure_of(SessionEndedError(self.io.ended))
            for entry in list(self.ownership.objects.values()):
                if entry.state == PENDING:
                    entry.resolve(FAILED, failure)
            self.streaming.end_all()
        self._stopped.set()
        critical_sections.unguard(self.lock)
        shutil.rmtree(self.session_directory, ignore_errors=True)

    def _check_alive(self) -> None:
        if self.io.ended is not None:
            raise SessionEndedError(self.io.ended)

    def _look_after_dropped(self) -> None:
        """Let go of what was collected though the program calls nothing of ours."""
        while not self._stopped.wait(JANITOR_SECONDS):
            self._drain()
            self.tasks.failures.look()
            self.callers.discard(threading.get_ident())

    def _drain(self) -> None:
        """Count what was collected since the last call."""
        self.callers.add(threading.get_ident())
        with self.lock:
            self.io.finish_batch()
