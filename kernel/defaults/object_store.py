"""The object store contract in its simplest correct form: one piece of shared memory, and a list of its parts.

It checks its capacity and drops weak objects; it never spills.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import threading
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
    """One object. A deleted one stays, without its name, for as long as a client pins or writes it."""

    create: Create
    location: int | None = None
    sealed: bool = False
    deleted: bool = False
    pins: Counter[ProcessId] = field(default_factory=Counter)
    readers: list[Pin] = field(default_factory=list)

    @property
    def unused(self) -> bool:
        return self.sealed and not self.pins


class _SharedMemory:
    """A file that has no name, mapped when it is first needed. It is closed with this object; views keep its memory.

    It is 64 times as long as all objects may be together, and takes memory only where an object is. First fit finds
    room in that, so that no object must ever be moved: it needs at most what is held times the logarithm of the largest
    size (J. M. Robson, Worst case fragmentation of first fit and best fit storage allocation strategies, 1977).
    """

    def __init__(self, descriptor: int, length: int) -> None:
        self.descriptor = descriptor
        self.length = length
        self.taken: dict[int, int] = {}
        """Sizes of objects by their offsets, in the order of the offsets."""
        self._map: mmap.mmap | None = None
        self._lock = threading.RLock()  # a destructor that runs amid the mapping may need the memory, too

    @classmethod
    def of(cls, capacity: int) -> _SharedMemory:
        """Make memory for `capacity` bytes of objects. Raises ObjectStoreError when the system refuses."""
        length = 64 * _pages(capacity)
        try:
            if hasattr(os, "memfd_create"):
                descriptor = os.memfd_create("kernel-object-store", os.MFD_CLOEXEC)
            else:
                with tempfile.TemporaryFile() as file:
                    descriptor = os.dup(file.fileno())
            os.ftruncate(descriptor, length)
        except OSError as error:
            raise ObjectStoreError(f"can't make {capacity} bytes of shared memory: {error}; ask for less") from error
        return cls(descriptor, length)

    def take(self, size: int) -> int:
        """Return the offset of the first free range of `size` bytes."""
        place = 0
        for begin, length in self.taken.items():
            if begin - place >= size:
                break
            place = begin + _pages(length)
        self.taken[place] = size
        self.taken = dict(sorted(self.taken.items()))
        return place

    def give_back(self, place: int) -> None:
        """Return the memory of an object to the system."""
        size = self.taken.pop(place)
        if hasattr(mmap, "MADV_REMOVE"):
            self._mapped().madvise(mmap.MADV_REMOVE, place, _pages(size))

    def view(self, place: int, size: int) -> memoryview:
        """Return `size` bytes at an offset, writable."""
        return memoryview(self._mapped())[place : place + size]

    def close(self) -> None:
        """Close the file; the memory is unmapped with its last view."""
        with self._lock:
            if self.descriptor < 0:
                return
            os.close(self.descriptor)
            self.descriptor = -1
            mapped, self._map = self._map, None
        if mapped is not None:
            with contextlib.suppress(BufferError):  # a view keeps the mapping, which ends with it
                mapped.close()

    def _mapped(self) -> mmap.mmap:
        with self._lock:
            if self._map is None:
                if self.descriptor < 0:
                    raise ObjectStoreError("this process has closed its object store; its session is over")
                self._map = mmap.mmap(self.descriptor, self.length)
            return self._map


def _pages(size: int) -> int:
    """Return `size` rounded up to whole pages."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


class LocalObjectServer:
    """See `kernel_spec.store.StoreServer`."""

    name = "local"

    def __init__(self, capacity: int) -> None:
        self._memory = _SharedMemory.of(capacity)
        self._capacity = capacity
        self._objects: list[_Object] = []
        self._dropped: dict[ObjectId, ProcessId] = {}
        self._waiting: list[_Object] = []
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
        return self._memory.view(location, size)

    def descriptors(self) -> list[int]:
        """Return the file behind the memory."""
        return [self._memory.descriptor]

    def client_options(self) -> Mapping[str, Any]:
        """Return how long that file is."""
        return {"length": self._memory.length}

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
        taken = {each.location: each.create.size for each in self._held()}
        assert taken == self._memory.taken, "memory and objects differ"
        assert sum(taken.values()) <= self._capacity, "more is held than fits"
        names = [each.create.object for each in self._objects if not each.deleted]
        assert len(names) == len(set(names)), "two objects have one name"
        assert not any(each.deleted and each.unused for each in self._objects), "an unused deleted object stays"

    def close(self) -> None:
        """Free the memory, once all processes that have mapped it are gone."""
        self._objects.clear()
        self._waiting.clear()
        self._memory.close()

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
                each.location = self._memory.take(size)
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
        return self._capacity - sum(self._memory.taken.values())

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
            self._memory.give_back(each.location)


class LocalObjectClient:
    """See `kernel_spec.store.StoreClient`."""

    def __init__(self, memory: _SharedMemory) -> None:
        self._memory = memory

    def writable(self, location: Location, size: int) -> memoryview:
        """Return the memory of an object being created."""
        return self._memory.view(location, size)

    def readable(self, location: Location, size: int, released: Callable[[], None]) -> memoryview:
        """Return a read-only view without a copy; call `released` once when the last view of it is gone."""
        import numpy

        # Slices of a memoryview keep its exporter alive, not the view itself: each reader gets an exporter of its own.
        exporter: Any = numpy.frombuffer(self._memory.view(location, size).toreadonly(), numpy.uint8)
        weakref.finalize(exporter, released).atexit = False
        return memoryview(exporter)

    def close(self) -> None:
        """Unmap, once the last view is gone."""
        self._memory.close()


class LocalObjectStore:
    """The reference store. See `kernel_spec.store.ObjectStore`."""

    name = "local"

    def open_server(self, capacity: int, directory: str | None = None) -> LocalObjectServer:
        """Make a server of `capacity` bytes. Its file has no name and is in memory: `directory` must be None."""
        if capacity < 1:
            raise ObjectStoreError(f"object_store_memory is {capacity} bytes; it must be 1 or more")
        if directory is not None:
            raise ObjectStoreError(
                f"the local object store keeps nothing in files; don't name the directory {directory!r}, "
                f"or choose another store"
            )
        return LocalObjectServer(capacity)

    def open_client(self, descriptors: Sequence[int], options: Mapping[str, Any]) -> LocalObjectClient:
        """Make a client of a server, in any process of its machine."""
        (descriptor,) = descriptors
        return LocalObjectClient(_SharedMemory(descriptor, options["length"]))
