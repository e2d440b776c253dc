"""References to objects: what `.remote()` and `put` return."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from kernel.runtime.in_progress import note_reference
from kernel.runtime.not_a_value import NotAValue
from kernel.runtime.object_entry import ObjectEntry, dropped
from kernel_spec.errors import InternalError
from kernel_spec.ids import ObjectId, ProcessId

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures


class ReferenceRuntime(Protocol):
    """The methods of a process's runtime that references call: see `kernel.runtime.interface`."""

    def deliver(self, ref: ObjectRef, future: concurrent.futures.Future[Any], read: bool = True) -> None:
        """Set the value of `ref` on `future` when it is there."""

    def deliver_async(self, ref: ObjectRef, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """Return a future of `loop` for the value of `ref`."""

    def adopt(self, id: ObjectId, owner: ProcessId, address: str) -> ObjectRef:
        """Return a reference that arrived from another process."""

    def owner_of(self, ref: ObjectRef) -> tuple[ProcessId, str]:
        """Return id and address of the owner."""

    def pin_forever(self, ref: ObjectRef) -> None:
        """Keep the object for the session."""


def _not_set() -> ReferenceRuntime:
    raise InternalError("a reference was used before `kernel.runtime.current` was imported")


get_runtime: Callable[[], ReferenceRuntime] = _not_set
"""Returns the runtime of this process; set by `kernel.runtime.current`, which stands above references."""


class ObjectRef(NotAValue):
    """A future for a value somewhere in the session.

    Pass it to tasks (they receive the value), put it into containers and closures (they receive the reference),
    `get` it, `wait` for it, `await` it. The value lives as long as any reference to it, anywhere.
    """

    __slots__ = ("__weakref__", "_entry")

    def __init__(self, entry: ObjectEntry) -> None:
        self._entry = entry

    def __del__(self, drop: Callable[[ObjectEntry], None] = dropped.append) -> None:
        drop(self._entry)  # not a global: at the end of a program those may be gone before the last reference

    def binary(self) -> ObjectId:
        """Return the object's id as bytes."""
        return self._entry.id

    def hex(self) -> str:
        """Return the object's id as 40 hexadecimal characters."""
        return self._entry.id.hex()

    def task_id(self) -> bytes:
        """Return the id of the task that makes the object."""
        return self._entry.id[:16]

    def is_ready(self) -> bool:
        """Return whether the value (or a failure) is known in this process."""
        return self._entry.state != 0

    def future(self, *, read: bool = True) -> concurrent.futures.Future[Any]:
        """Return a `concurrent.futures.Future` of the value.

        With `read=False` its result is None, as soon as the value or a failure is there to be read, wherever it lies.
        """
        import concurrent.futures

        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        get_runtime().deliver(self, future, read)
        return future

    def as_future(self) -> asyncio.Future[Any]:
        """Return an asyncio future of the value, for the running loop."""
        import asyncio

        return get_runtime().deliver_async(self, asyncio.get_running_loop())

    def __await__(self) -> Generator[Any, None, Any]:
        return self.as_future().__await__()

    def __hash__(self) -> int:
        return hash(self._entry.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectRef) and self._entry.id == other._entry.id

    def __repr__(self) -> str:
        return f"ObjectRef({self._entry.id.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        runtime = get_runtime()
        if not note_reference(self):
            runtime.pin_forever(self)
        return _rebuild, (self._entry.id, *runtime.owner_of(self))


def _rebuild(id: ObjectId, owner: ProcessId, address: str) -> ObjectRef:
    return get_runtime().adopt(id, owner, address)
