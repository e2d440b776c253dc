"""The object store contract in its simplest correct form: a dictionary of bytearrays in one process.

It checks its capacity and drops weak objects; it never spills, and another process can't see it. Server and clients
must come from the same `LocalObjectStore`.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ObjectLostError, ObjectStoreError, ObjectStoreFullError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.store import (
    Abort,
    ClientLeft,
    Create,
    Delete,
    Failed,
    Keep,
    Location,
    Pin,
    ReleaseIdle,
    Reply,
    Seal,
    StoredObject,
    StoreEvent,
    StoreInstruction,
    StoreUsage,
    Unpin,
)


@dataclass(eq=False)
class _Object:
    """One object. A deleted one stays, without its name, for as long as somebody pins or writes it."""

    create: Create
    location: int | None = None
    sealed: bool = False
    deleted: bool = False
    pins: Counter[ProcessId] = field(default_factory=Counter)
    readers: list[Pin] = field(default_factory=list)

    @property
    def unused(self) -> bool:
        return self.sealed and not self.pins


class LocalObjectServer:
    """See `kernel_spec.store.StoreServer`."""

    name = "local"

    def __init__(self, capacity: int) -> None:
        self.memory: dict[int, bytearray] = {}
        self._capacity = capacity
        self._objects: list[_Object] = []
        self._dropped: dict[ObjectId, ProcessId] = {}
        self._waiting: list[_Object] = []
        self._locations = itertools.count()
        self._release_asked = False

    def handle(self, event: StoreEvent) -> list[StoreInstruction]:
        """Take one event in and return what to do, in order."""
        out: list[StoreInstruction] = []
        if isinstance(event, Create):
            self._create(event, out)
        elif isinstance(event, Seal):
            self._seal(event, out)
        elif isinstance(event, Abort):
            for each in self._written_by(event.client, event.object):
                self._abandon(each, out)
        elif isinstance(event, Pin):
            self._pin(event, out)
        elif isinstance(event, Unpin):
            self._unpin(event.client, event.object)
        elif isinstance(event, Keep):
            self._keep(event.object)
        elif isinstance(event, Delete):
            for object in event.objects:
                self._delete(object)
        elif isinstance(event, ClientLeft):
            self._client_left(event.client, out)
        self._place_waiting(out)
        return out

    def give_up_waiting(self) -> list[StoreInstruction]:
        """Fail the largest waiting request."""
        if not self._waiting:
            return []
        out: list[StoreInstruction] = []
        hopeless = max(self._waiting, key=lambda each: each.create.size)
        holders = ", ".join(f"{row.object.hex()} ({row.size} bytes)" for row in self.objects()[:5])
        error = ObjectStoreFullError(
            f"no space for object {hopeless.create.object.hex()} of {hopeless.create.size} bytes in the object store "
            f"of {self._capacity} bytes. Its biggest objects: {holders}; drop references that are no longer needed, "
            f"or raise object_store_memory"
        )
        out.append(Failed(hopeless.create.client, hopeless.create.request, error))
        self._abandon(hopeless, out)
        self._place_waiting(out)
        return out

    def view(self, location: Location, size: int) -> memoryview:
        """Return the object's memory, writable."""
        return memoryview(self.memory[location])

    def descriptors(self) -> list[int]:
        """Return nothing: the memory is this process's."""
        return []

    def client_options(self) -> Mapping[str, Any]:
        """Return the key under which the store keeps this server."""
        return {"server": id(self)}

    def usage(self) -> StoreUsage:
        """Return exact counts."""
        held = self._held()
        used = sum(each.create.size for each in held)
        unused = sum(each.create.size for each in held if each.unused)
        return StoreUsage(self._capacity, used, used, used - unused, 0, len(held), len(self._waiting))

    def objects(self) -> list[StoredObject]:
        """Return every object held, largest first."""
        rows = [
            StoredObject(
                each.create.object,
                each.create.owner,
                each.create.size,
                "sealed" if each.sealed else "writing",
                dict(each.pins),
                each.create.weak,
            )
            for each in self._held()
        ]
        return sorted(rows, key=lambda row: (-row.size, row.object))

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        assert {each.location for each in self._held()} == set(self.memory), "memory and objects differ"
        assert sum(map(len, self.memory.values())) <= self._capacity, "more is held than fits"
        names = [each.create.object for each in self._objects if not each.deleted]
        assert len(names) == len(set(names)), "two objects have one name"
        assert not any(each.deleted and each.unused for each in self._objects), "a deleted object stays for nobody"

    def close(self) -> None:
        """Forget everything; views handed out stay valid."""
        self.memory.clear()
        self._objects.clear()
        self._waiting.clear()

    # -- what the events do ------------------------------------------------------------------------------------

    def _create(self, event: Create, out: list[StoreInstruction]) -> None:
        name = event.object.hex()
        error: ObjectStoreError | None = None
        if type(event.size) is not int or event.size < 1:
            error = ObjectStoreError(f"object {name} was asked for with size {event.size!r}; a size is 1 or more")
        elif event.size > self._capacity:
            error = ObjectStoreFullError(
                f"object {name} of {event.size} bytes can never fit into this object store of {self._capacity} bytes; "
                f"raise object_store_memory, or split the object"
            )
        elif self._written_by(event.client, event.object):
            error = ObjectStoreError(f"object {name} is being written by this same process; seal or abort it first")
        if error is not None:
            out.append(Failed(event.client, event.request, error))
            return
        newer = _Object(event)
        older = self._find(event.object)
        if older is not None and not older.sealed:
            newer.readers, older.readers = older.readers, []
        self._delete(event.object)
        self._objects.append(newer)
        self._waiting.append(newer)

    def _seal(self, event: Seal, out: list[StoreInstruction]) -> None:
        for each in self._written_by(event.client, event.object):
            if each.location is None:
                continue
            each.sealed = True
            if event.pin:
                each.pins[event.client] += 1
            for reader in each.readers:
                each.pins[reader.client] += 1
                out.append(Reply(reader.client, reader.request, (each.location, each.create.size)))
            each.readers.clear()
            self._forget_if_done(each)

    def _pin(self, event: Pin, out: list[StoreInstruction]) -> None:
        each = self._find(event.object)
        if each is None:
            why = "was a weak object and was dropped for space" if event.object in self._dropped else "is not here"
            error = ObjectLostError(f"object {event.object.hex()} {why}; keep a reference to what is still needed")
            out.append(Failed(event.client, event.request, error))
        elif not each.sealed:
            each.readers.append(event)
        else:
            each.pins[event.client] += 1
            self._objects.remove(each)
            self._objects.append(each)
            out.append(Reply(event.client, event.request, (each.location, each.create.size)))

    def _unpin(self, client: ProcessId, object: ObjectId) -> None:
        """Undo a pin of any object of that name: a view keeps its memory here, whatever the counts say."""
        for each in self._objects:
            if each.create.object == object and each.pins[client]:
                each.pins[client] -= 1
                each.pins += Counter()
                self._forget_if_done(each)
                return

    def _keep(self, object: ObjectId) -> None:
        each = self._find(object)
        if each is not None:
            each.create = replace(each.create, weak=False)

    def _delete(self, object: ObjectId) -> None:
        self._dropped.pop(object, None)
        each = self._find(object)
        if each is not None:
            each.deleted = True
            self._forget_if_done(each)

    def _client_left(self, client: ProcessId, out: list[StoreInstruction]) -> None:
        for each in list(self._objects):
            each.readers = [reader for reader in each.readers if reader.client != client]
            del each.pins[client]
            if each.create.client == client and not each.sealed:
                self._abandon(each, out)
                continue
            if each.create.owner == client:
                each.deleted = True
            self._forget_if_done(each)
        self._dropped = {object: owner for object, owner in self._dropped.items() if owner != client}

    # -- space -------------------------------------------------------------------------------------------------

    def _place_waiting(self, out: list[StoreInstruction]) -> None:
        for each in list(self._waiting):
            size = each.create.size
            if self._free() < size:
                self._drop_weak(size)
            if self._free() >= size:
                each.location = next(self._locations)
                self.memory[each.location] = bytearray(size)
                self._waiting.remove(each)
                out.append(Reply(each.create.client, each.create.request, each.location))
        if not self._waiting:
            self._release_asked = False
        elif not self._release_asked and any(each.pins for each in self._objects):
            self._release_asked = True
            out.append(ReleaseIdle())

    def _drop_weak(self, size: int) -> None:
        for each in list(self._objects):
            if self._free() < size and each.create.weak and each.unused:
                self._dropped[each.create.object] = each.create.owner
                self._forget(each)

    def _free(self) -> int:
        return self._capacity - sum(map(len, self.memory.values()))

    # -- objects -----------------------------------------------------------------------------------------------

    def _find(self, object: ObjectId) -> _Object | None:
        return next((each for each in self._objects if each.create.object == object and not each.deleted), None)

    def _written_by(self, client: ProcessId, object: ObjectId) -> list[_Object]:
        return [e for e in self._objects if not e.sealed and (e.create.client, e.create.object) == (client, object)]

    def _held(self) -> list[_Object]:
        return [each for each in self._objects if each.location is not None]

    def _abandon(self, each: _Object, out: list[StoreInstruction]) -> None:
        for reader in each.readers:
            error = ObjectLostError(
                f"object {each.create.object.hex()} never came to be: its creator gave it up or died"
            )
            out.append(Failed(reader.client, reader.request, error))
        self._forget(each)

    def _forget_if_done(self, each: _Object) -> None:
        if each.deleted and each.unused:
            self._forget(each)

    def _forget(self, each: _Object) -> None:
        self._objects.remove(each)
        if each in self._waiting:
            self._waiting.remove(each)
        if each.location is not None:
            del self.memory[each.location]


class LocalObjectClient:
    """See `kernel_spec.store.StoreClient`."""

    def __init__(self, memory: dict[int, bytearray]) -> None:
        self._memory = memory

    def writable(self, location: Location, size: int) -> memoryview:
        """Return the memory of an object being created."""
        return memoryview(self._memory[location])

    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        """Return a read-only view without a copy; call `released` once when the last view of it is gone."""
        import numpy

        # Slices of a memoryview keep its exporter alive, not the view itself: each reader gets an exporter of its own.
        exporter: Any = numpy.frombuffer(memoryview(self._memory[location]).toreadonly(), numpy.uint8)
        weakref.finalize(exporter, released).atexit = False
        return memoryview(exporter)

    def close(self) -> None:
        """Do nothing: views handed out stay valid anyway."""


class LocalObjectStore:
    """The reference store. See `kernel_spec.store.ObjectStore`."""

    name = "local"

    def __init__(self) -> None:
        self._servers: weakref.WeakValueDictionary[int, LocalObjectServer] = weakref.WeakValueDictionary()

    def open_server(self, capacity: int, directory: str | None = None) -> LocalObjectServer:
        """Make a server of `capacity` bytes; there are no files, so `directory` must be None."""
        if capacity < 1:
            raise ObjectStoreError(f"object_store_memory is {capacity} bytes; it must be 1 or more")
        if directory is not None:
            raise ObjectStoreError(
                f"the local object store keeps nothing in files; don't name the directory {directory!r}, "
                f"or choose another store"
            )
        server = LocalObjectServer(capacity)
        self._servers[id(server)] = server
        return server

    def open_client(self, descriptors: Sequence[int], options: Mapping[str, Any]) -> LocalObjectClient:
        """Make a client of a server of this same store in this same process."""
        server = self._servers.get(options["server"])
        if server is None:
            raise ObjectStoreError("the local object store serves the process it is in, and this is another one")
        return LocalObjectClient(server.memory)
