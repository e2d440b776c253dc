"""A store that is never too small: objects for which the store plugin has no room are kept in files. Pure.

Every event passes through here. Usually the plugin alone handles it; a request that the plugin fails with
`ObjectStoreFullError` is granted all the same, with a file (see `kernel_processes.node.overflow_table`). So plugins
need not know of it, and clients, transfer and spilling see one store: only the location says where an object is.

If no file can be made either, a request that had waited for room goes back to the plugin once, because other processes
may still release objects. After that, the error names both causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel_processes.node.overflow_table import (
    WRITING,
    Asked,
    FileFailed,
    FileMade,
    MakeFile,
    Out,
    OverflowEntry,
    OverflowTable,
    RemoveFile,
)
from kernel_processes.protocol.overflow_files import OverflowFile, map_writable
from kernel_spec import store as contract
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ObjectLostError, ObjectStoreError, ObjectStoreFullError
from kernel_spec.ids import ObjectId, ProcessId

_LOOKED_AT = frozenset((contract.Create, contract.Pin, contract.SpillDone, contract.SpillFailed, FileMade, FileFailed))
"""Events that matter even when nothing is in files, spilled, or waited for."""


@dataclass(slots=True)
class _Request:
    """Holds a request of a client to the plugin.

    `waited`: it was not answered at once; `tried`: no file could be made for it; `superseded`: a newer creation of the
    object has been requested, so that this one is not needed.
    """

    event: Asked
    waited: bool = False
    tried: bool = False
    superseded: bool = False


class OverflowServer:
    """Wraps the `kernel_spec.store.StoreServer` of `store`, with files in `directory` for objects that do not fit."""

    def __init__(self, store: contract.StoreServer, directory: str) -> None:
        self.name = store.name
        self.store = store
        self.directory = directory
        self.table = OverflowTable(directory)
        self.no_way_out = False
        """Whether objects without room could lately be neither spilled nor put into files."""
        self._requests: dict[tuple[ProcessId, int], _Request] = {}
        """Requests that the plugin has not answered yet."""
        self._spilled: dict[str, ObjectId] = {}
        """By the uri of the copy."""
        self._held_back: dict[ObjectId, list[contract.WriteSpill | contract.ReadSpill]] = {}
        """Disk work of the plugin on objects that are being read back into files: one at a time for each id."""
        self._handlers: dict[type, Callable[[Any, Out], None]] = {
            contract.Create: self._create,
            contract.Pin: self._pin,
            contract.Seal: self._seal,
            contract.Abort: self._abort,
            contract.Unpin: self._unpin,
            contract.Keep: self._keep,
            contract.Delete: self._delete,
            contract.ClientLeft: self._client_left,
            contract.SpillDone: self._spill_done,
            contract.SpillFailed: self._spill_failed,
            contract.RestoreDone: self._restored,
            contract.RestoreFailed: self._restored,
            contract.RestoreLate: self._restore_late,
            FileMade: self._file_made,
            FileFailed: self._file_failed,
        }

    def handle(self, event: contract.StoreEvent | FileMade | FileFailed) -> list[Any]:
        """Take one event in and return what to do, in order."""
        if type(event) not in _LOOKED_AT and not (self._requests or self._spilled or self.table):
            return self.store.handle(event)  # type: ignore[arg-type]
        out: Out = []
        self._handlers.get(type(event), self._pass_on)(event, out)
        return out

    @property
    def waits(self) -> bool:
        """Whether the plugin has requests that it could not answer at once."""
        return bool(self._requests)

    def give_up_waiting(self) -> list[Any]:
        """Put what the plugin gives up into a file, or fail it; see the contract."""
        out: Out = []
        self._take(self.store.give_up_waiting(), out)
        return out

    def view(self, location: contract.Location, size: int) -> memoryview:
        """Return the object's memory, writable (any thread)."""
        if type(location) is OverflowFile:
            return map_writable(location, size)
        return self.store.view(location, size)

    def descriptors(self) -> list[int]:
        """Return those of the plugin."""
        return self.store.descriptors()

    def client_options(self) -> Mapping[str, Any]:
        """Return those of the plugin."""
        return self.store.client_options()

    def usage(self) -> contract.StoreUsage:
        """Return exact counts."""
        usage, table = self.store.usage(), self.table
        if not table:
            return usage
        return contract.StoreUsage(
            capacity=usage.capacity,
            used=usage.used,
            reserved=usage.reserved,
            pinned=usage.pinned,
            spilled=usage.spilled,
            objects=usage.objects + table.objects - table.copies,
            waiting=usage.waiting,
            overflow=table.bytes,
            overflow_objects=table.objects,
        )

    def objects(self) -> list[contract.StoredObject]:
        """Return every object held, largest first."""
        rows = self.store.objects()
        return sorted([*rows, *self.table.rows()], key=lambda row: -row.size) if self.table else rows

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        self.store.validate()
        self.table.validate()
        for key, request in self._requests.items():
            assert key == (request.event.client, request.event.request), "a request is listed under a wrong name"

    def close(self) -> None:
        """Close the plugin's store. The maker of the files removes them."""
        self.store.close()

    # -- requests --------------------------------------------------------------------------------------------------

    def _create(self, event: contract.Create, out: Out) -> None:
        for request in self._requests.values():
            if request.event.object == event.object and isinstance(request.event, contract.Create):
                request.superseded = True
        older = self.table.current(event.object) if self.table else None
        if older is not None and older.is_written_by(event.client):
            error = ObjectStoreError(
                f"object {event.object.hex()} is being written by this same process; seal or abort it before creating "
                "it anew"
            )
            out.append(contract.Failed(event.client, event.request, error))
            return
        if older is not None and type(event.size) is int and event.size > 0:
            readers, older.readers = older.readers, []
            self.table.delete(older, out)
            self._ask(_Request(event), out)
            for reader in readers:  # Readers of the older object wait for the newer one.
                self._pin(reader, out)
            return
        self._ask(_Request(event), out)

    def _pin(self, event: contract.Pin, out: Out) -> None:
        entry = self.table.current(event.object) if self.table else None
        if entry is not None:
            self.table.pin(entry, event, out)
        else:
            self._ask(_Request(event), out)

    def _ask(self, request: _Request, out: Out) -> None:
        """Let the plugin answer a request, and remember those that it can't answer yet."""
        event = request.event
        instructions = self.store.handle(event)
        if len(instructions) == 1 and type(instructions[0]) is contract.Reply and not self._requests:
            out.append(instructions[0])
            return
        key = event.client, event.request
        self._requests[key] = request
        self._take(instructions, out)
        if key in self._requests:
            request.waited = True

    def _take(self, instructions: Iterable[contract.StoreInstruction], out: Out) -> None:
        """Pass on what the plugin says, but for requests that it refuses and files have room for."""
        refused: list[tuple[_Request, contract.Failed]] = []
        for step in instructions:
            if isinstance(step, contract.Reply):
                self._requests.pop((step.client, step.request), None)
            elif isinstance(step, contract.Failed):
                request = self._requests.pop((step.client, step.request), None)
                if request and not request.superseded and isinstance(step.error, ObjectStoreFullError):
                    refused.append((request, step))
                    continue
            elif isinstance(step, contract.DeleteSpill):
                self._spilled.pop(step.uri, None)
            elif isinstance(step, contract.WriteSpill | contract.ReadSpill) and self.table.restoring(step.object):
                self._held_back.setdefault(step.object, []).append(step)
                continue
            out.append(step)
        for request, failed in sorted(refused, key=lambda one: isinstance(one[0].event, contract.Pin)):
            self._overflow(request, failed, out)

    def _overflow(self, request: _Request, failed: contract.Failed, out: Out) -> None:
        """Have a file made for an object without room: a new one that is to be written, or a copy of a spilled one."""
        event = request.event
        if isinstance(event, contract.Create):
            self._take(self.store.handle(contract.Delete([event.object])), out)  # The store's own version is older.
            entry: OverflowEntry | None = self.table.create(event, out)
        else:
            entry = self.table.current(event.object) or self._copy(event.object, out)
            if entry is None:
                out.append(failed)
                return
            self.table.pin(entry, event, out)
        assert entry is not None
        if entry.refusal is None:
            entry.refusal, entry.again = failed.error, request.waited and not request.tried

    def _copy(self, object: ObjectId, out: Out) -> OverflowEntry | None:
        uris = [uri for uri, spilled in self._spilled.items() if spilled == object]
        rows = [row for row in self.store.objects() if row.object == object and row.state == "spilled"]
        return self.table.copy(rows[0], uris[-1], out) if uris and rows else None

    # -- files -----------------------------------------------------------------------------------------------------

    def _file_made(self, event: FileMade, out: Out) -> None:
        self.no_way_out = False
        entry = self.table.making(event.path)
        if entry is not None:
            self.table.made(entry, out)
        else:
            out.append(RemoveFile(event.path))

    def _file_failed(self, event: FileFailed, out: Out) -> None:
        entry = self.table.making(event.path)
        if entry is None:
            return
        if self.table.drop_weak(out):
            out.append(MakeFile(event.path, entry.size))
            return
        self.no_way_out = True
        if entry.again and not entry.deleted:
            waiting: list[Asked] = [*([entry.create] if entry.create is not None else ()), *entry.readers]
            self.table.forget(entry, out)
            out.append(contract.ReleaseIdle())  # Idle files count, too.
            for one in waiting:
                self._ask(_Request(one, tried=True), out)
            return
        error = ObjectStoreFullError(f"{entry.refusal}. It can't be kept in a file either: {event.error}")
        if entry.create is not None:
            out.append(contract.Failed(entry.create.client, entry.create.request, error))
        self.table.fail(entry, error, out)

    # -- what concerns objects that may be in files ----------------------------------------------------------------

    def _pass_on(self, event: contract.StoreEvent, out: Out) -> None:
        self._take(self.store.handle(event), out)

    def _seal(self, event: contract.Seal, out: Out) -> None:
        entry = self.table.written_by(event.client, event.object)
        if entry is None:
            self._pass_on(event, out)
        elif entry.state == WRITING:
            self.table.seal(entry, out, event.client if event.pin else None)

    def _abort(self, event: contract.Abort, out: Out) -> None:
        entry = self.table.written_by(event.client, event.object)
        if entry is None:
            self._pass_on(event, out)
        else:
            self.table.abandon(entry, False, out)

    def _unpin(self, event: contract.Unpin, out: Out) -> None:
        # A client that pins one generation here and another in the store may mean either; the file's may end too early.
        if not self.table.unpin(event.client, event.object, out):
            self._pass_on(event, out)

    def _keep(self, event: contract.Keep, out: Out) -> None:
        entry = self.table.current(event.object)
        if entry is not None:
            entry.weak = False
        self._pass_on(event, out)

    def _delete(self, event: contract.Delete, out: Out) -> None:
        for object in event.objects if self.table else ():
            entry = self.table.current(object)
            if entry is not None:
                self.table.delete(entry, out)
        self._pass_on(event, out)

    def _client_left(self, event: contract.ClientLeft, out: Out) -> None:
        for key in [key for key in self._requests if key[0] == event.client]:
            del self._requests[key]
        self.table.client_left(event.client, out)
        self._pass_on(event, out)

    # -- disk work -------------------------------------------------------------------------------------------------

    def _spill_done(self, event: contract.SpillDone, out: Out) -> None:
        self.no_way_out = False
        self._spilled[event.uri] = event.object
        self._pass_on(event, out)

    def _spill_failed(self, event: contract.SpillFailed, out: Out) -> None:
        self.no_way_out = True
        self._pass_on(event, out)

    def _restored(self, event: contract.RestoreDone | contract.RestoreFailed, out: Out) -> None:
        entry = self.table.restoring(event.object)
        if entry is None:
            self._pass_on(event, out)
            return
        entry.late = None
        if isinstance(event, contract.RestoreDone):
            self.table.seal(entry, out)
        else:
            error = ObjectLostError(
                f"object {entry.object.hex()} was spilled to {entry.uri} and can't be read back: {event.error}"
            )
            error.__cause__ = event.error
            self.table.fail(entry, error, out)
        out.extend(self._held_back.pop(event.object, ()))

    def _restore_late(self, event: contract.RestoreLate, out: Out) -> None:
        entry = self.table.restoring(event.object)
        if entry is None:
            self._pass_on(event, out)
        else:
            entry.late = event.error
            self.table.fail_readers(entry, event.error, out)
