"""What the public API requires of a runtime: tasks, actors, objects, streams, and answers about the session.

`kernel_engine.partial_runtime` answers for what an engine does not offer.
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
    """How the values of this process become bytes."""

    def register(self, cls: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
        """Send instances of `cls` as `serializer(instance)`, of which the receiver makes `deserializer(...)`."""

    def deregister(self, cls: type) -> None:
        """Undo `register`."""


class TaskRuntime(Protocol):
    """Tasks. The results of `submit` are what `.remote()` returns."""

    def submit(self, function: FunctionDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Queue a task; return its reference, a list of them, a stream, or None for no returns."""

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """Cancel the task that makes `ref`."""

    def is_cancelled(self, task: bytes) -> bool:
        """Return whether the call that runs here was cancelled. An actor's is not interrupted once it has asked."""


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
        """Return what is known of a named actor (id, definition, options, owner), or None."""

    def list_named_actors(self, all_namespaces: bool) -> list[dict[str, str]]:
        """Return names and namespaces of living named actors."""

    def check_pending_calls(self, actor: ActorId, limit: int) -> None:
        """Raise PendingCallsLimitError when `limit` calls of this process wait for the actor."""

    def watch_actor(self, actor: ActorId, name: str = "") -> None:
        """Prepare to call an actor whose handle has arrived from elsewhere."""

    def kill_actor(self, actor: ActorId, no_restart: bool) -> None:
        """End an actor's process."""

    def current_actor(self) -> bytes:
        """Return the id of the actor that the calling code runs in, or nothing."""

    def describe_current_actor(self) -> Mapping[str, Any] | None:
        """Return what `find_actor` would, for the actor that the calling code runs in."""


class ObjectRuntime(Protocol):
    """Objects: their values, and the references that travel."""

    @property
    def serializer(self) -> RuntimeSerializer:
        """How values become bytes."""

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
        """Set the value of `ref`, or its failure, on `future` when it is there; without `read` None in both cases."""

    def deliver_async(self, ref: ObjectRef, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """Return a future of `loop` for the value of `ref`."""

    def adopt(self, id: ObjectId, owner: ProcessId, address: str) -> ObjectRef:
        """Return a reference that arrived from another process."""

    def owner_of(self, ref: ObjectRef) -> tuple[ProcessId, str]:
        """Return id and address of the owner."""

    def pin_forever(self, ref: ObjectRef) -> None:
        """Keep the object for the session: its reference left by a way that can't be counted."""


class StreamRuntime(Protocol):
    """Streams, as their reader sees them."""

    def next_item(self, stream: ObjectStream, timeout: float | None) -> ObjectRef:
        """Return the next reference of a stream; raises StopIteration at its end."""

    def take_item(self, stream: ObjectStream) -> tuple[ObjectRef | None, bool]:
        """Return the next reference if there is one, and whether the stream has ended."""

    def item_arrival(self, stream: ObjectStream, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Return a future that is done when the stream has changed."""

    def next_arrival(self, stream: ObjectStream) -> ObjectEntry:
        """Return an entry, to be waited for as those of references are: ready when the stream has an item or ends."""

    def close_stream(self, stream: ObjectStream) -> None:
        """Take no more items."""


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
        """Have coming requests of other processes answered at once, although no thread here waits for them."""
