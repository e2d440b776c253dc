"""Decide about objects of a node that lie in files, because its store had no room for them. Pure: it touches no file.

A file is made before it is written to, so that a full disk shows at once. Removing it before its last view is gone
would do no harm to the view, because a mapping keeps its bytes; it stays as long as any process pins it, so that the
counts are right.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

from kernel_processes.protocol.overflow_files import OverflowFile
from kernel_spec import store as contract
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ObjectLostError, ObjectStoreError
from kernel_spec.ids import ObjectId, ProcessId

MAKING, WRITING, RESTORING, SEALED = "making", "writing", "restoring", "overflow"
"""States of an object: its file is being made; it is being written; it is read back from a spill target; it is done."""


@dataclass(frozen=True, slots=True)
class MakeFile:
    """Make a file of `size` bytes, all of them on the disk, off the loop thread; answered by an event."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Remove a file, off the loop thread."""

    path: str


@dataclass(frozen=True, slots=True)
class FileMade:
    """A `MakeFile` succeeded."""

    path: str


@dataclass(frozen=True, slots=True)
class FileFailed:
    """A `MakeFile` failed with `error`, and left nothing behind."""

    path: str
    error: ObjectStoreError


Asked = contract.Create | contract.Pin
Out = list[object]
"""Instructions: those of the contract, `MakeFile` and `RemoveFile`."""


class OverflowEntry:
    """Holds the state of one object. `create` made it; for a copy of a spilled object it is None, and `uri` is set.

    `refusal` is why it is not in the store; `again` says whether to ask the store again if no file can be made. `late`
    is the error of its readers when the spill target hangs.
    """

    __slots__ = (
        "again",
        "create",
        "deleted",
        "file",
        "late",
        "object",
        "owner",
        "pins",
        "readers",
        "refusal",
        "size",
        "state",
        "uri",
        "weak",
    )

    def __init__(self, object: ObjectId, size: int, owner: ProcessId, path: str) -> None:
        self.object = object
        self.size = size
        self.owner = owner
        self.file = OverflowFile(path)
        self.create: contract.Create | None = None
        self.uri = ""
        self.weak = False
        self.state = MAKING
        self.deleted = False
        self.refusal: Exception | None = None
        self.again = False
        self.late: Exception | None = None
        self.pins: dict[ProcessId, int] = {}
        self.readers: list[contract.Pin] = []

    def is_written_by(self, client: ProcessId) -> bool:
        """Whether `client` makes the object."""
        return self.create is not None and self.create.client == client and self.state in (MAKING, WRITING)


class OverflowTable:
    """Holds objects by id, each with its current generation, and older generations that still have readers.

    The files are in `directory`. Methods add instructions to `out`.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._entries: dict[ObjectId, list[OverflowEntry]] = {}
        self._making: dict[str, OverflowEntry] = {}
        self._numbers = itertools.count()
        self.bytes = 0
        self.objects = 0
        """The number of objects with a file, and their bytes."""
        self.copies = 0
        """The number of these that are copies of spilled objects."""

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[OverflowEntry]:
        return (entry for several in self._entries.values() for entry in several)

    def current(self, object: ObjectId) -> OverflowEntry | None:
        """Return the object of that id, if it is here."""
        return next((entry for entry in self._entries.get(object, ()) if not entry.deleted), None)

    def making(self, path: str) -> OverflowEntry | None:
        """Return whose file that is, if it is still wanted."""
        return self._making.get(path)

    def written_by(self, client: ProcessId, object: ObjectId) -> OverflowEntry | None:
        """Return the object of that id that `client` makes."""
        return next((entry for entry in self._entries.get(object, ()) if entry.is_written_by(client)), None)

    def restoring(self, object: ObjectId) -> OverflowEntry | None:
        """Return the object of that id that is being read back."""
        return next((entry for entry in self._entries.get(object, ()) if entry.state == RESTORING), None)

    # -- from nothing to sealed ------------------------------------------------------------------------------------

    def create(self, event: contract.Create, out: Out) -> OverflowEntry:
        """Begin an object that a client is going to write."""
        entry = self._add(event.object, event.size, event.owner, out)
        entry.create, entry.weak = event, event.weak
        return entry

    def copy(self, row: contract.StoredObject, uri: str, out: Out) -> OverflowEntry:
        """Begin a copy of an object that was spilled to `uri`, for which there is no room to be read back."""
        entry = self._add(row.object, row.size, row.owner, out)
        entry.uri = uri
        return entry

    def made(self, entry: OverflowEntry, out: Out) -> None:
        """There is a file for the object."""
        del self._making[entry.file.path]
        self.bytes += entry.size
        self.objects += 1
        if entry.create is not None:
            entry.state = WRITING
            out.append(contract.Reply(entry.create.client, entry.create.request, entry.file))
            return
        entry.state = RESTORING
        self.copies += 1
        if entry.readers:
            out.append(contract.ReadSpill(entry.object, entry.uri, entry.file, entry.size))
        else:
            self.forget(entry, out)

    def seal(self, entry: OverflowEntry, out: Out, pinned_by: ProcessId | None = None) -> None:
        """Note that the object is complete, and pin it for its waiting readers."""
        entry.state = SEALED
        if pinned_by is not None:
            entry.pins[pinned_by] = 1
        readers, entry.readers = entry.readers, []
        for reader in readers:
            self.pin(entry, reader, out)
        self._settle(entry, out)

    def fail(self, entry: OverflowEntry, error: Exception, out: Out) -> None:
        """The object never comes to be."""
        self.fail_readers(entry, error, out)
        self.forget(entry, out)

    def fail_readers(self, entry: OverflowEntry, error: Exception, out: Out) -> None:
        """Fail the waiting readers of the object."""
        out.extend(contract.Failed(reader.client, reader.request, error) for reader in entry.readers)
        entry.readers = []

    def abandon(self, entry: OverflowEntry, died: bool, out: Out) -> None:
        """Its writer gave the object up, or ended."""
        assert entry.create is not None
        create = entry.create
        how = "ended before the object was complete" if died else "gave the object up before it was complete"
        name = f"object {entry.object.hex()}"
        if entry.state == MAKING and not died:
            error = ObjectStoreError(f"{name} was given up by its creator before there was a file for it")
            out.append(contract.Failed(create.client, create.request, error))
        self.fail(entry, ObjectLostError(f"{name} never came to be: process {create.client.hex()} {how}"), out)

    # -- readers ---------------------------------------------------------------------------------------------------

    def pin(self, entry: OverflowEntry, event: contract.Pin, out: Out) -> None:
        """Answer a reader, as soon as the object is sealed."""
        if entry.late is not None:
            out.append(contract.Failed(event.client, event.request, entry.late))
            return
        if entry.state != SEALED:
            entry.readers.append(event)
            return
        entry.pins[event.client] = entry.pins.get(event.client, 0) + 1
        out.append(contract.Reply(event.client, event.request, (entry.file, entry.size)))

    def unpin(self, client: ProcessId, object: ObjectId, out: Out) -> bool:
        """Count a pin less; return whether that process had one here."""
        for entry in self._entries.get(object, ()):
            if client in entry.pins:
                entry.pins[client] -= 1
                if not entry.pins[client]:
                    del entry.pins[client]
                self._settle(entry, out)
                return True
        return False

    # -- the end ---------------------------------------------------------------------------------------------------

    def delete(self, entry: OverflowEntry, out: Out) -> None:
        """The object is not needed: it goes with its last pin, or when it is complete."""
        entry.deleted = True
        self._settle(entry, out)

    def client_left(self, client: ProcessId, out: Out) -> None:
        """A process is gone, with its pins and requests, what it was writing and what it owned."""
        for entry in list(self):
            entry.readers = [reader for reader in entry.readers if reader.client != client]
            if entry.is_written_by(client):
                self.abandon(entry, True, out)
                continue
            entry.pins.pop(client, None)
            entry.deleted = entry.deleted or entry.owner == client
            self._settle(entry, out)

    def drop_weak(self, out: Out) -> bool:
        """Forget weak objects without pins; return whether there were any."""
        idle = [entry for entry in self if entry.weak and entry.state == SEALED and not entry.pins]
        for entry in idle:
            self.forget(entry, out)
        return bool(idle)

    def forget(self, entry: OverflowEntry, out: Out) -> None:
        """Remove every trace of an object. A file that is being made is removed when it is there."""
        generations = self._entries[entry.object]
        generations.remove(entry)
        if not generations:
            del self._entries[entry.object]
        if entry.state == MAKING:
            del self._making[entry.file.path]
        else:
            self.bytes -= entry.size
            self.objects -= 1
            self.copies -= entry.create is None
            out.append(RemoveFile(entry.file.path))

    # -- answers ---------------------------------------------------------------------------------------------------

    def rows(self) -> list[contract.StoredObject]:
        """Return the objects that have a file."""
        return [
            contract.StoredObject(entry.object, entry.owner, entry.size, entry.state, dict(entry.pins), entry.weak)
            for entry in self
            if entry.state != MAKING
        ]

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        filed = [entry for entry in self if entry.state != MAKING]
        assert self.bytes == sum(entry.size for entry in filed), f"{self.bytes} bytes are counted"
        assert self.objects == len(filed), f"{self.objects} objects are counted, there are {len(filed)}"
        assert self.copies == sum(entry.create is None for entry in filed), f"{self.copies} copies are counted"
        making = {entry.file.path: entry for entry in self if entry.state == MAKING}
        assert self._making == making, "files that are being made differ"
        for object, entries in self._entries.items():
            assert entries and sum(not entry.deleted for entry in entries) <= 1, f"{object.hex()} is there twice"
            for entry in entries:
                name = f"object {object.hex()} ({entry.state})"
                assert entry.object == object, f"{name} is listed under a wrong name"
                assert entry.state == SEALED or not entry.pins, f"{name} is pinned"
                assert entry.state != SEALED or not entry.readers, f"{name} has readers that wait for nothing"
                assert all(count > 0 for count in entry.pins.values()), f"{name} has pins that are not positive"
                done = entry.state == SEALED and not entry.pins and (entry.deleted or entry.create is None)
                assert not done, f"{name} is not needed, and it is still there"

    def _add(self, object: ObjectId, size: int, owner: ProcessId, out: Out) -> OverflowEntry:
        path = os.path.join(self.directory, f"{object.hex()}-{next(self._numbers)}")
        entry = OverflowEntry(object, size, owner, path)
        self._entries.setdefault(object, []).append(entry)
        self._making[path] = entry
        out.append(MakeFile(path, size))
        return entry

    def _settle(self, entry: OverflowEntry, out: Out) -> None:
        """Forget a sealed object without pins if it was deleted, or is a copy of a spilled one."""
        unwanted = entry.deleted or entry.create is None
        if entry.state == SEALED and not entry.pins and unwanted:
            self.forget(entry, out)
