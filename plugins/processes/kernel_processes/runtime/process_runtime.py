"""The runtime of drivers and workers: it puts the parts of `kernel.runtime` together behind one interface."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kernel.runtime.current import find_runtime, set_runtime
from kernel.runtime.definitions import (
    ActorOptions,
    CallOptions,
    ClassDefinition,
    FunctionDefinition,
    function_inside,
)
from kernel.runtime.object_entry import FAILED, PENDING
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.worker_info import worker_info
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_engine.metrics.process_metrics import counted_here, process_snapshot
from kernel_engine.objects.acknowledgements import Arrival
from kernel_engine.objects.futures import Futures
from kernel_engine.objects.ownership import Ownership
from kernel_engine.objects.stream_consumer import StreamConsumer
from kernel_engine.serialization.value_serializer import ValueSerializer, current_load
from kernel_engine.tasks.open_tasks import open_tasks
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_engine.tasks.tracing import CallTrace
from kernel_processes.protocol.identity import Identity
from kernel_processes.protocol.pickled import Pickled
from kernel_processes.runtime.actor_calls import ActorCaller, Channel
from kernel_processes.runtime.actor_creation import ActorCreator
from kernel_processes.runtime.cancelling import Cancelling
from kernel_processes.runtime.inspection import Inspection
from kernel_processes.runtime.last_output import await_last_output
from kernel_processes.runtime.lineage import Lineage
from kernel_processes.runtime.process import Process
from kernel_processes.runtime.promises import Promises
from kernel_processes.runtime.session_objects import SessionObjects
from kernel_processes.runtime.stacks import thread_stacks
from kernel_processes.runtime.store_access import StoreAccess
from kernel_processes.runtime.submission import TaskSubmitter
from kernel_processes.transport.connection import Connection
from kernel_spec.errors import PendingCallsLimitError, SessionEndedError
from kernel_spec.ids import ActorId, JobId, NodeId, ObjectId, ProcessId, TaskId, object_id

if TYPE_CHECKING:
    from kernel_spec.store import ObjectStore

_OUTPUT_SECONDS = 10.0
"""Seconds for which leaving a session waits for the output of workers, when an agent does not answer."""


class ProcessRuntime:
    """Runs the tasks, actors and objects of one process of a session."""

    local_mode = False

    def __init__(
        self, identity: Identity, serializer: ValueSerializer, store: Callable[[], ObjectStore], namespace: str
    ) -> None:
        self.identity = identity
        self.job = JobId(identity.job)
        self.node = NodeId(identity.node)
        self.process = ProcessId(identity.id)
        self.is_driver = identity.role == "driver"
        self.namespace = namespace
        self.serializer = serializer
        self.details: Mapping[str, Any] = {}
        self.io = Process(identity)
        self.store = StoreAccess(self.io, store)
        self.ownership = Ownership(self.io, self.store)
        self.tasks = TaskTable(self.io, self.ownership, self.store, serializer, self)
        self.submitter = TaskSubmitter(self.io, self.tasks)
        self.actors = ActorCaller(self.io, self.tasks)
        self.creator = ActorCreator(self.io, self.tasks, self.actors, self.job)
        self.cancelling = Cancelling(self.io, self.ownership, self.submitter, self.actors)
        self.lineage = Lineage(self.io, self.ownership, self.submitter.retry)
        self.failures = self.ownership.failures
        self.failures.send = self._tell_of_failure
        self.io.handlers[number_of(op.LeasedWorkerDied)] = self._on_process_died
        self.io.pump.on_tick = self._tick
        self.io.on_agent_lost = self._agent_lost
        self.promises = Promises(self.io, self.ownership, self.tasks)
        self.inspection = Inspection(
            self.io, self.ownership, self.tasks, self.submitter, self.actors, self.promises.pending
        )
        self.values = SessionObjects(
            self.io, self.ownership, self.store, self.tasks, self.inspection, serializer, self.lineage
        )
        self.put = self.values.put
        self.get = self.values.get
        self.get_one = self.values.get_one
        self.wait = self.values.wait
        self.streams = StreamConsumer(self.io, self.values.block, self.values.explain)
        self.next_item = self.streams.next_item
        self.take_item = self.streams.take_item
        self.item_arrival = self.streams.item_arrival
        self.next_arrival = self.streams.next_arrival
        self.close_stream = self.streams.close
        promptly = self.io.pump.answer_promptly
        self.futures = Futures(self.values.when_ready, self.values.load, self.failures.asked, promptly)
        self.deliver = self.futures.deliver
        self.deliver_async = self.futures.deliver_async
        self.inspection.waits.awaited = self.futures.of_calls
        self.is_cancelled: Callable[[bytes], bool] = lambda task: False
        self.trace = CallTrace()
        self.io.methods["stacks"] = thread_stacks
        self.io.methods["trace"] = lambda: pickle.dumps(self.trace.events())
        self.io.methods["open_tasks"] = lambda: pickle.dumps(self.open_tasks())
        self.io.methods["new_calls"] = self.trace.new_calls
        self.io.methods["metrics"] = self.metrics
        self.io.methods["ping"] = lambda: None
        self.io.methods["tell_failures"] = self._tell_failures
        self._export_lock = threading.RLock()  # Code that serializes, and destructors, may call it again.
        self._forever: list[ObjectRef] = []

    def open_tasks(self) -> list[dict[str, Any]]:
        """Return a row per task and call that was submitted here and has not ended."""
        with self.io.lock:
            return open_tasks(list(self.ownership.objects.values()))

    def metrics(self) -> bytes:
        """Return a pickled snapshot of what this process has counted."""
        return pickle.dumps(process_snapshot(self.process.hex(), len(self.tasks.running), self.tasks.failed))

    def tell_last_metrics(self) -> None:
        """Send the metrics of this process, because it ends."""
        if counted_here() or self.tasks.failed:
            self.io.tell_agent(packed(op.LastMetrics(snapshot=self.metrics())))

    def start(self, details: Mapping[str, Any]) -> None:
        """Join the session."""
        self.details = self.io.start(dict(details))

    # -- tasks -----------------------------------------------------------------------------------------------------

    def submit(self, function: FunctionDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """See `Runtime.submit`."""
        if not function.id:
            self.export(function)
        if worker_info.captures is not None and not function.shape.strategy:
            function = function_inside(function, worker_info.captures)
        task, result = self.tasks.prepare(function, function.max_retries, args, kwargs)
        io = self.io
        with io.lock:
            if io.ended is not None:
                raise SessionEndedError(io.ended)
            self.submitter.accept(task)
        pump = io.pump
        if pump.interrupts:
            io.raise_interrupt()
        if not pump.backing_off:
            pump.flush_soon()
        return result

    def export(self, definition: FunctionDefinition | ClassDefinition) -> None:
        """Serialize a function or class, once."""
        import hashlib

        with self._export_lock:
            if definition.id:
                return
            target = definition.function if isinstance(definition, FunctionDefinition) else definition.cls
            blob, captured = self.serializer.dumps_function(target)
            definition.blob = blob
            definition.captured = list(captured)
            definition.id = hashlib.blake2b(blob + definition.name.encode(), digest_size=12).digest()

    def task_ended(self, task: Task) -> None:
        """See `TaskEvents.task_ended`."""
        place = task.place
        if place is None:
            return
        if isinstance(place, Channel):
            self.actors.finished(task)
        else:
            self.submitter.finished(task)

    def run_again(self, task: Task) -> None:
        """See `TaskEvents.run_again`."""
        if isinstance(task.place, Channel):
            self.actors.retry(task)
        else:
            task.place = None
            self.submitter.retry(task)

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """See `Runtime.cancel`."""
        with self.io.lock:
            self.cancelling.cancel(ref._entry, force, recursive)
        self.io.flush_soon()

    # -- actors ----------------------------------------------------------------------------------------------------

    def create_actor(
        self, definition: ClassDefinition, options: ActorOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ActorId, ObjectRef | None, Mapping[str, Any] | None]:
        """See `Runtime.create_actor`."""
        if not definition.id:
            self.export(definition)
        if worker_info.captures is not None and not options.strategy:
            options.strategy = worker_info.captures
        constructor = CallOptions(returns=1, name="__init__")
        task, ref = self.tasks.prepare(constructor, 0, args, kwargs, definition.name)
        if self.io.ended is not None:
            raise SessionEndedError(self.io.ended)
        existing = self.creator.create(task, definition, options, options.namespace or self.namespace)
        self.io.flush_soon()
        return ActorId(bytes(task.id)), (ref if existing is None else None), existing

    def call_actor(
        self, actor: ActorId, method: str, options: CallOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See `Runtime.call_actor`."""
        task, result = self.tasks.prepare(options, options.max_task_retries, args, kwargs)
        io = self.io
        with io.lock:
            if io.ended is not None:
                raise SessionEndedError(io.ended)
            channel = self.actors.channels.get(actor) or self.actors.channel(actor, options.class_name)
            task.actor = channel.name
            self.actors.accept(channel, task)
        pump = io.pump
        if pump.interrupts:
            io.raise_interrupt()
        if not pump.backing_off:
            pump.flush_soon()
        return result

    def check_pending_calls(self, actor: ActorId, limit: int) -> None:
        """Raise PendingCallsLimitError when `limit` calls of this process wait for the actor."""
        channel = self.actors.channels.get(actor)
        if channel is not None and self.actors.pending(channel) >= limit:
            raise PendingCallsLimitError(
                f"{channel.name} ({actor.hex()[:12]}) has {limit} calls of this process waiting, its "
                "max_pending_calls; get some results before calling it again"
            )

    def watch_actor(self, actor: ActorId, name: str = "") -> None:
        """See `Runtime.watch_actor`."""
        with self.io.lock:
            channel = self.actors.channel(actor, name)
            entry = self.ownership.objects.get(object_id(TaskId(actor), 0))
            if entry is not None:
                self.actors.count_handles(channel, entry)
        self.io.flush_soon()

    def find_actor(self, name: str, namespace: str | None) -> Mapping[str, Any] | None:
        """See `Runtime.find_actor`."""
        data = self.io.call_agent("find_actor", name, namespace or self.namespace)
        return pickle.loads(data) if data is not None else None

    def list_named_actors(self, all_namespaces: bool) -> list[dict[str, str]]:
        """See `Runtime.list_named_actors`."""
        return list(self.io.call_agent("named_actors", None if all_namespaces else self.namespace))

    def kill_actor(self, actor: ActorId, no_restart: bool) -> None:
        """See `Runtime.kill_actor`."""
        self.io.call_agent("kill_actor", actor, no_restart)

    def group_ready(self, group: str, value: Any) -> ObjectRef:
        """See `Runtime.group_ready`."""
        return self.promises.make(value, "placement_group_ready", "explain_placement_group", group)

    # -- references ------------------------------------------------------------------------------------------------

    def adopt(self, id: ObjectId, owner: ProcessId, address: str) -> ObjectRef:
        """See `Runtime.adopt`."""
        arrival = current_load()
        return self.ownership.adopt(id, owner, address, arrival if isinstance(arrival, Arrival) else None)

    def owner_of(self, ref: ObjectRef) -> tuple[ProcessId, str]:
        """See `Runtime.owner_of`."""
        details = ref._entry.details
        if details is None or details.owner is None:
            return self.process, self.io.address
        return details.owner, details.address

    def pin_forever(self, ref: ObjectRef) -> None:
        """See `Runtime.pin_forever`."""
        self._forever.append(ref)

    def answer_promptly(self) -> None:
        """See `Runtime.answer_promptly`."""
        self.io.pump.answer_promptly()

    # -- where this is ---------------------------------------------------------------------------------------------

    @property
    def session_directory(self) -> str:
        """The session's directory."""
        return self.identity.directory

    def adopt_node(self, node: bytes) -> None:
        """Learn which node this is, from its agent."""
        self.identity.node = node
        self.node = NodeId(node)

    def use_serializer(self, serializer: ValueSerializer) -> None:
        """Use the serializers that the session chose."""
        self.serializer = serializer
        self.tasks.use_serializer(serializer)
        self.values.serializer = serializer

    def current_actor(self) -> bytes:
        """Return the id of the actor this process is, b"" if it is not an actor."""
        return worker_info.actor

    def describe_current_actor(self) -> Mapping[str, Any] | None:
        """Return the description of the actor this process is, as `find_actor` does, or None."""
        return worker_info.description

    def trace_span(self, name: str, begun: float, ended: float, extra: dict[str, Any]) -> None:
        """Add a span to the timeline."""
        self.trace.add(name, begun, ended, b"", extra)

    # -- the session -----------------------------------------------------------------------------------------------

    def query(self, method: str, *arguments: Any) -> Any:
        """See `Runtime.query`."""
        answer = self.io.call_agent(method, *arguments)
        return answer.load() if isinstance(answer, Pickled) else answer

    def explain(self, ref: ObjectRef) -> str:
        """See `Runtime.explain`."""
        return self.inspection.explain_entry(ref._entry)

    def shutdown(self) -> None:
        """See `Runtime.shutdown`."""
        if find_runtime() is self:
            set_runtime(None)
        if self.io.ended is None and self.io.agent is not None and not self.io.agent.closed:
            self.failures.close()
            await_last_output(self.io, _OUTPUT_SECONDS)
            with self.io.lock:
                self.submitter.close()
                self.ownership.drain()
                self.tell_last_metrics()
        self._fail_everything("the session was shut down")
        self.io.stop()
        with self.io.lock:
            self.ownership.drop_idle_views()
        self.store.close()

    def _agent_lost(self, reason: str) -> None:
        self._fail_everything(reason)

    def _fail_everything(self, why: str) -> None:
        with self.io.lock:
            self.io.ended = self.io.ended or why
            failure = (op.SYSTEM_ERROR, pickle.dumps(SessionEndedError(why)))
            for entry in list(self.ownership.objects.values()):
                if entry.state == PENDING:
                    task = entry.task
                    entry.resolve(FAILED, failure)
                    if task is not None and task.stream is not None and not task.stream.finished:
                        self.tasks.break_stream(task, failure)

    def _on_process_died(self, connection: Connection, message: Message) -> None:
        self.submitter.worker_died(*unpacked(op.LeasedWorkerDied, message))

    def _tick(self) -> None:
        if self.io.closing:
            return
        with self.io.lock:
            self.io.finish_batch()
        self.failures.look()
        self.io.flush()

    def _tell_failures(self) -> None:
        """Report all unread failures to the session now, because the program leaves."""
        self.ownership.drain()
        self.failures.close()

    def _tell_of_failure(self, row: dict[str, Any]) -> None:
        if self.io.agent is not None and not self.io.agent.closed:
            self.io.request(self.io.agent, "note_failure", row)
