"""The protocol of a runtime, which the public API calls: tasks, actors, objects, streams, and the session's state.

`kernel_engine.partial_runtime` implements the parts that an engine does not offer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kernel_spec.engines import EngineRuntime
from kernel_spec.ids import ActorId, ObjectId, ProcessId

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

    from kernel.runtime.definitions import ActorOptions, CallOptions, ClassDefinition, FunctionDefinition
    from kernel.runtime.object_entry import ObjectEntry
    from kernel.runtime.object_ref import ObjectRef
    from kernel.runtime.streams import ObjectStream

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class RuntimeSerializer(Protocol):
    """Converts values of this process to bytes."""

    def register(self, cls: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
        """Send instances of `cls` as `serializer(instance)`, to which the receiver applies `deserializer`."""

    def deregister(self, cls: type) -> None:
        """Undo `register`."""


class TaskRuntime(Protocol):
    """Tasks. The results of `submit` are what `.remote()` returns."""

    def submit(self, function: FunctionDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Queue a task; return its reference, a list of them, a stream, or None for no returns."""

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """Cancel the task that makes `ref`."""

    def is_cancelled(self, task: bytes) -> bool:
        """Return whether the running call was cancelled. A call of an actor that has asked is not interrupted."""


class ActorRuntime(Protocol):
    """Actors, and their names."""

    def create_actor(
        self, definition: ClassDefinition, options: ActorOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ActorId, ObjectRef | None, Mapping[str, Any] | None]:
        """Start an actor; return its id and the reference whose life is the actor's.

        When its name is taken and `get_if_exists` is set, the third value describes the one that exists instead.
        """

    def call_actor(
        self, actor: ActorId, method: str, options: CallOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Queue a method call; return as `submit` does."""

    def find_actor(self, name: str, namespace: str | None) -> Mapping[str, Any] | None:
        """Return the description of a named actor (id, definition, options, owner), or None."""

    def list_named_actors(self, all_namespaces: bool) -> list[dict[str, str]]:
        """Return names and namespaces of living named actors."""

    def check_pending_calls(self, actor: ActorId, limit: int) -> None:
        """Raise PendingCallsLimitError when `limit` calls of this process wait for the actor."""

    def watch_actor(self, actor: ActorId, name: str = "") -> None:
        """Prepare to call an actor whose handle has arrived from elsewhere."""

    def kill_actor(self, actor: ActorId, no_restart: bool) -> None:
        """End an actor's process."""

    def current_actor(self) -> bytes:
        """Return the id of the actor that the calling code runs in, b"" outside of an actor."""

    def describe_current_actor(self) -> Mapping[str, Any] | None:
        """Return the description of the actor that the calling code runs in, as `find_actor` does, or None."""


class ObjectRuntime(Protocol):
    """Objects: their values, and the references that travel."""

    @property
    def serializer(self) -> RuntimeSerializer:
        """The serializer of this process."""

    def put(self, value: Any, weak: bool = False) -> ObjectRef:
        """Store a value."""

    def get(self, refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
        """Return the values in order, or raise the first failure."""

    def get_one(self, ref: ObjectRef, timeout: float | None) -> Any:
        """Return the value of one reference, or raise its failure."""

    def wait(
        self, refs: Sequence[ObjectRef], num_returns: int, timeout: float | None, fetch_local: bool
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """Return (ready, others), both in the order given."""

    def deliver(self, ref: ObjectRef, future: concurrent.futures.Future[Any], read: bool = True) -> None:
        """Set the value of `ref`, or its error, on `future` when it is ready; without `read` set None in both cases."""

    def deliver_async(self, ref: ObjectRef, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """Return a future of `loop` for the value of `ref`."""

    def adopt(self, id: ObjectId, owner: ProcessId, address: str) -> ObjectRef:
        """Return a reference that arrived from another process."""

    def owner_of(self, ref: ObjectRef) -> tuple[ProcessId, str]:
        """Return id and address of the owner."""

    def pin_forever(self, ref: ObjectRef) -> None:
        """Keep the object for the session, because its reference was sent by a way that can't be counted."""


class StreamRuntime(Protocol):
    """Streams, as their reader sees them."""

    def next_item(self, stream: ObjectStream, timeout: float | None) -> ObjectRef:
        """Return the next reference of a stream; raises StopIteration at its end."""

    def take_item(self, stream: ObjectStream) -> tuple[ObjectRef | None, bool]:
        """Return the next reference if there is one, and whether the stream has ended."""

    def item_arrival(self, stream: ObjectStream, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Return a future that is done when the stream has changed."""

    def next_arrival(self, stream: ObjectStream) -> ObjectEntry:
        """Return an entry that is ready when the stream has an item or ends, to wait for like those of references."""

    def close_stream(self, stream: ObjectStream) -> None:
        """Stop taking items, and close the generator in its worker."""


class Runtime(TaskRuntime, ActorRuntime, ObjectRuntime, StreamRuntime, EngineRuntime, Protocol):
    """All that the public API calls. Every method may be called from any thread."""

    @property
    def is_driver(self) -> bool:
        """Whether this is the program itself, rather than a task or actor of it."""

    def group_ready(self, group: str, value: Any) -> ObjectRef:
        """Return a reference to `value` that is ready when the placement group `group` (hexadecimal) is placed."""

    def explain(self, ref: ObjectRef) -> str:
        """Say what `ref` is waiting for, in a sentence or a few lines."""

    def trace_span(self, name: str, begun: float, ended: float, extra: dict[str, Any]) -> None:
        """Add a span to the timeline; times are seconds since the epoch."""

    def answer_promptly(self) -> None:
        """Answer coming requests of other processes at once, although no thread waits here."""
