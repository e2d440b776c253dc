"""Share what all runtimes of one process have in common: objects, streams, the names of actors, and the shutdown."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import kernel_engine.own_code  # noqa: F401  (before anything of it can be interrupted)
from kernel.runtime.current import find_runtime, set_runtime
from kernel.runtime.execution_context import NO_EXECUTION, current_execution
from kernel.runtime.object_entry import FAILED, PENDING
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import ObjectStream
from kernel.runtime.worker_info import current_worker
from kernel_engine.failures.failures import failure_of
from kernel_engine.objects.futures import Futures
from kernel_engine.objects.stream_consumer import StreamConsumer
from kernel_engine.one_process.actor_names import ActorNames
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.one_process.generators import Generators
from kernel_engine.one_process.objects import OneProcessObjects
from kernel_engine.one_process.transport import InProcessOwnership, InProcessStore, InProcessTransport
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_engine.tasks.tracing import CallTrace
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import JobId, NodeId, ObjectId, ProcessId

JANITOR_SECONDS = 0.25
"""Seconds between two checks for references and streams that the program has dropped."""


class OneProcessCore:
    """Implements `kernel.runtime.interface.Runtime` but for tasks, actors, cancelling, and questions about the session.

    A subclass decides in `task_ended` and `run_again` what becomes of tasks, and calls `_begin` when all its parts are
    made. `callers` are the threads that have called the runtime.
    """

    engine = "?"
    """The engine's name."""
    local_mode = True

    def __init__(
        self, namespace: str | None, serializer: ValueSerializer | None = None, process: bytes | None = None
    ) -> None:
        self.process = ProcessId(process or os.urandom(8))
        self.job = JobId(self.process)
        self.node = NodeId(os.urandom(8))
        self.session_namespace = namespace or self.process.hex()
        self.session_directory = tempfile.mkdtemp(prefix=f"kernel-{self.engine}-")
        self.serializer = serializer or ValueSerializer()
        self.io = InProcessTransport(self.process, self.node)
        self.identity = self.io.identity
        self.lock = self.io.lock
        """The one lock of the engine."""
        self.store = InProcessStore()
        io: Any = self.io
        store: Any = self.store
        self.ownership = InProcessOwnership(io, store)
        self.tasks = TaskTable(io, self.ownership, store, self.serializer, self)
        self.trace = CallTrace()
        self.names = ActorNames()
        self.generators = Generators(self.io)
        self.calls = CallThreads(self.io, self.tasks, self.generators, self.trace)
        self.executing: dict[bytes, Any] = {}
        """Each `Call` that a thread makes now."""
        self.callers: set[int] = set()
        self._forever: list[ObjectRef] = []
        self._stopped = threading.Event()

    def _begin(self, objects: OneProcessObjects, streams: StreamConsumer) -> None:
        """Use these for objects and streams, and start the thread that finds what the program drops."""
        self.objects = self.values = objects
        self.streams = streams
        futures = Futures(objects.when_ready, objects.load, self.tasks.failures.asked)
        self.deliver, self.deliver_async = futures.deliver, futures.deliver_async
        self.item_arrival = streams.item_arrival
        self.next_arrival = streams.next_arrival
        name = f"kernel-{self.engine}-janitor"
        threading.Thread(target=self._look_after_dropped, name=name, daemon=True).start()

    def make_runner(self, actor_name: str) -> CallRunner:
        """Return a runner, which packs and unpacks the values of calls; `actor_name` is "" outside of actors."""
        here: Any = self
        runner = CallRunner(here)
        runner.actor_name = actor_name or None
        return runner

    def task_ended(self, task: Task) -> None:
        """See `TaskEvents.task_ended`."""

    def run_again(self, task: Task) -> None:
        """See `TaskEvents.run_again`."""
        raise NotImplementedError

    # -- objects ---------------------------------------------------------------------------------------------------

    def put(self, value: Any, weak: bool = False) -> ObjectRef:
        """See `Runtime.put`. Space is never short, so weak objects stay as long as their references."""
        self._drain()
        return self.objects.put(value, weak, 3)

    def get(self, refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
        """See `Runtime.get`."""
        self._drain()
        return self.objects.get(refs, timeout)

    def get_one(self, ref: ObjectRef, timeout: float | None) -> Any:
        """See `Runtime.get_one`."""
        return self.get([ref], timeout)[0]

    def wait(
        self, refs: Sequence[ObjectRef], num_returns: int, timeout: float | None, fetch_local: bool
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """See `Runtime.wait`."""
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

    def close_stream(self, stream: ObjectStream) -> None:
        """See `Runtime.close_stream`."""
        self.streams.close(stream)

    # -- actors ----------------------------------------------------------------------------------------------------

    @property
    def namespace(self) -> str:
        """The namespace of the calling actor, outside of actors the session's."""
        return current_worker().namespace or self.session_namespace

    def find_actor(self, name: str, namespace: str | None) -> Mapping[str, Any] | None:
        """See `Runtime.find_actor`."""
        self._drain()
        with self.lock:
            return self.names.find(namespace or self.namespace, name)

    def list_named_actors(self, all_namespaces: bool) -> list[dict[str, str]]:
        """See `Runtime.list_named_actors`."""
        self._drain()
        with self.lock:
            return self.names.rows(None if all_namespaces else self.namespace)

    def watch_actor(self, actor: bytes, name: str = "") -> None:
        """Do nothing: every actor of the process is known already."""

    def current_actor(self) -> bytes:
        """See `Runtime.current_actor`."""
        return current_worker().actor

    def describe_current_actor(self) -> Mapping[str, Any] | None:
        """See `Runtime.describe_current_actor`."""
        return current_worker().description

    # -- the session -----------------------------------------------------------------------------------------------

    @property
    def is_driver(self) -> bool:
        """Whether the caller is the program itself, and no task or actor of it."""
        return current_execution.get() is NO_EXECUTION and not current_worker().actor

    def explain(self, ref: ObjectRef) -> str:
        """See `Runtime.explain`."""
        return self.objects.explain(ref._entry)

    def trace_span(self, name: str, begun: float, ended: float, extra: dict[str, Any]) -> None:
        """See `Runtime.trace_span`."""
        self.trace.add(name, begun, ended, b"", extra)

    def shutdown(self) -> None:
        """See `Runtime.shutdown`. Threads that run user code go on until it returns."""
        here: Any = self
        if find_runtime() is here:
            set_runtime(None)
        self._drain()
        self.tasks.failures.close()
        with self.lock:
            self.io.ended = "the session was shut down"
            self.end_calls()
        self._stopped.set()
        shutil.rmtree(self.session_directory, ignore_errors=True)

    def end_calls(self) -> None:
        """Make all pending objects fail with SessionEndedError, and end all generators. Called under the lock."""
        failure = failure_of(SessionEndedError(str(self.io.ended)))
        for entry in list(self.ownership.objects.values()):
            if entry.state == PENDING:
                entry.resolve(FAILED, failure)
        self.generators.end_all()

    def _check_alive(self) -> None:
        if self.io.ended is not None:
            raise SessionEndedError(self.io.ended)

    def _look_after_dropped(self) -> None:
        """Release dropped references again and again, also while the program makes no call of the API."""
        while not self._stopped.wait(JANITOR_SECONDS):
            self._drain()
            self.tasks.failures.look()
            self.callers.discard(threading.get_ident())

    def _drain(self) -> None:
        """Release the references that were collected since the last call."""
        self.callers.add(threading.get_ident())
        with self.lock:
            self.io.finish_batch()
