"""The object store contract: large immutable values, shared by the processes of one node.

Two halves. The *server* is a pure state machine inside the node agent: requests of clients go in as events,
replies and disk work come out as instructions, which the agent carries out. The *client* lives in every process
that touches a large object; it only turns a location into memory. The kernel moves the messages between the two,
so a store needs no protocol of its own.

A location is whatever the server says: any small picklable value that its client understands.

Life of an object: `Create` (space is found, perhaps by spilling), the creator writes through
`StoreClient.writable`, `Seal`; from then on it is immutable and readable by all. `Pin` before reading, `Unpin`
when the last view of it is gone. `Delete` when its owner counts no references. Creation happens once; sealing is
atomic; an object whose creator died before sealing never existed.

A store need not handle objects for which it has no room: when it fails a request with `ObjectStoreFullError`, the
kernel keeps the object in a file, without the store. So a store must use that error exactly where another place would
help.

Server calls come from the agent's one loop thread and must not block. It may raise `ObjectStoreFullError` only
through `Failed`. Client calls may come from any thread. Nothing survives the agent.

On conflict: a driver (exactly one is chosen by name). On absence the kernel runs in local mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ObjectId, ProcessId

Location = Any
"""Opaque to the kernel; small and picklable."""

# -- events in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """A process has ended: abort its writes, drop its pins, delete its objects."""

    client: ProcessId


@dataclass(frozen=True, slots=True)
class Create:
    """`client` requests `size` bytes (1 or more) for `object`; answered by `Reply` with a location, or `Failed`.

    `owner` counts the references and is the one whose death deletes the object. `weak` objects may be dropped
    when space is short, even while referenced. A newer creation of the same object (its task ran again) takes its
    name; the older one disappears with its last pin. It waits while space may still come; one that is larger than
    the store fails at once.
    """

    client: ProcessId
    request: int
    object: ObjectId
    size: int
    owner: ProcessId
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Seal:
    """The bytes are complete. With `pin` the creator keeps it pinned (it goes on reading it)."""

    client: ProcessId
    object: ObjectId
    pin: bool = False


@dataclass(frozen=True, slots=True)
class Abort:
    """The creator gave up: forget the object."""

    client: ProcessId
    object: ObjectId


@dataclass(frozen=True, slots=True)
class Pin:
    """`client` requests to read; answered by `Reply` with `(location, size)` when the object is sealed and in memory.

    Fails at once with `ObjectLostError` when it was dropped; waits when it is being written, spilled or restored.
    Each pin is undone by one `Unpin`.
    """

    client: ProcessId
    request: int
    object: ObjectId


@dataclass(frozen=True, slots=True)
class Unpin:
    """Undo one pin. Pins of unknown objects are ignored (the object was deleted meanwhile)."""

    client: ProcessId
    object: ObjectId


@dataclass(frozen=True, slots=True)
class Keep:
    """Make a weak object a normal one, because no other copy is left. Unknown objects are ignored."""

    object: ObjectId


@dataclass(frozen=True, slots=True)
class Delete:
    """The owner counts no references. A pinned object disappears with its last pin."""

    objects: Sequence[ObjectId]


@dataclass(frozen=True, slots=True)
class SpillDone:
    """A `WriteSpill` succeeded: the object lives at `uri` now and its memory may be used again."""

    object: ObjectId
    uri: str


@dataclass(frozen=True, slots=True)
class SpillFailed:
    """A `WriteSpill` failed with `error` (an `OutOfDiskError` or another `KernelError`)."""

    object: ObjectId
    error: Exception


@dataclass(frozen=True, slots=True)
class RestoreDone:
    """A `ReadSpill` succeeded."""

    object: ObjectId


@dataclass(frozen=True, slots=True)
class RestoreFailed:
    """A `ReadSpill` failed with `error`."""

    object: ObjectId
    error: Exception


@dataclass(frozen=True, slots=True)
class RestoreLate:
    """A `ReadSpill` takes too long: fail the pins that wait for it, and new ones, with `error`.

    Its memory must be left alone, because the target may still write to it; `RestoreDone` or `RestoreFailed` comes when
    it no longer does. Meanwhile it does not count as disk work in progress.
    """

    object: ObjectId
    error: Exception


StoreEvent = (
    ClientLeft
    | Create
    | Seal
    | Abort
    | Pin
    | Unpin
    | Keep
    | Delete
    | SpillDone
    | SpillFailed
    | RestoreDone
    | RestoreFailed
    | RestoreLate
)

# -- instructions out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a `Create` (value: location) or a `Pin` (value: `(location, size)`)."""

    client: ProcessId
    request: int
    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Answer a request with an error from `kernel_spec.errors`."""

    client: ProcessId
    request: int
    error: Exception


@dataclass(frozen=True, slots=True)
class WriteSpill:
    """Write the object's bytes (`server.view(location, size)`) to the spill target, off the loop thread."""

    object: ObjectId
    location: Location
    size: int


@dataclass(frozen=True, slots=True)
class ReadSpill:
    """Read the bytes at `uri` into `server.view(location, size)`, off the loop thread."""

    object: ObjectId
    uri: str
    location: Location
    size: int


@dataclass(frozen=True, slots=True)
class DeleteSpill:
    """Remove a spilled copy that is no longer needed."""

    uri: str


@dataclass(frozen=True, slots=True)
class ReleaseIdle:
    """Ask every client to unpin what it keeps mapped without a live view: space is short."""


StoreInstruction = Reply | Failed | WriteSpill | ReadSpill | DeleteSpill | ReleaseIdle


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One row of `kernel memory`. `state` is writing, sealed, spilling, spilled or restoring.

    The kernel's own rows say `overflow` of what is sealed and lies in a file.
    """

    object: ObjectId
    owner: ProcessId
    size: int
    state: str
    pins: Mapping[ProcessId, int] = field(default_factory=dict)
    weak: bool = False


@dataclass(frozen=True, slots=True)
class StoreUsage:
    """The exact use of a store in bytes: `used` is the sum of the requested sizes of the objects in memory.

    `reserved` includes alignment, `pinned` are bytes that can't be spilled now, `spilled` bytes at the spill target.
    The kernel adds the objects that it keeps in files to `objects`, and their sums as `overflow` (bytes) and
    `overflow_objects`.
    """

    capacity: int
    used: int
    reserved: int
    pinned: int
    spilled: int
    objects: int
    waiting: int
    overflow: int = 0
    overflow_objects: int = 0


@runtime_checkable
class StoreServer(Protocol):
    """The half in the agent. See the module's text."""

    name: str

    def handle(self, event: StoreEvent) -> list[StoreInstruction]:
        """Handle one event and return instructions, in order. Must not block, and must not raise for a bad client."""
        ...

    def give_up_waiting(self) -> list[StoreInstruction]:
        """Answer requests that can't be fulfilled. Called by the agent when nothing has changed for some seconds.

        Fails at least one waiting request with `ObjectStoreFullError` (or `OutOfDiskError`, `SpillError`: why
        nothing could be spilled), which may let the others go on, so it is called again later. Returns nothing when
        no request waits or disk work (that is not late) is in progress. A server has no clock: it never gives up by
        itself.
        """
        ...

    def view(self, location: Location, size: int) -> memoryview:
        """Return the object's memory, writable, for spilling and restoring (any thread)."""
        ...

    def descriptors(self) -> list[int]:
        """Return the file descriptors that a client needs; the kernel sends them to it."""
        ...

    def client_options(self) -> Mapping[str, Any]:
        """Return further options for clients (picklable)."""
        ...

    def usage(self) -> StoreUsage:
        """Return exact counts. Cheap."""
        ...

    def objects(self) -> list[StoredObject]:
        """Return every object held, largest first. May be slow."""
        ...

    def validate(self) -> None:
        """Raise AssertionError, with the history that led to it, when an invariant is broken."""
        ...

    def close(self) -> None:
        """Free everything outside the process (files, shared memory). Called once, at the end."""
        ...


@runtime_checkable
class StoreClient(Protocol):
    """The half in every other process.

    Any thread may call it, and so may a destructor that Python runs amid a call of the same thread: its locks must be
    reentrant.
    """

    def writable(self, location: Location, size: int) -> memoryview:
        """Return the memory of an object being created."""
        ...

    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        """Return a read-only view without a copy; call `released` once when the last view of it is gone.

        `released` may be called from the garbage collector: it only queues.
        """
        ...

    def close(self) -> None:
        """Unmap. Views handed out stay valid until they are gone."""
        ...


@runtime_checkable
class ObjectStore(Protocol):
    """A store plugin: makes the two halves."""

    name: str

    def open_server(self, capacity: int, directory: str | None) -> StoreServer:
        """Make the server with `capacity` bytes. `directory` asks for file-backed memory there (huge pages).

        Raises `ObjectStoreError` naming what is missing and what to do.
        """
        ...

    def open_client(self, descriptors: Sequence[int], options: Mapping[str, Any]) -> StoreClient:
        """Make a client from the server's descriptors and options. It owns the descriptors."""
        ...
