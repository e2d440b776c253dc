"""Decide for the store: requests of clients in, replies and disk work out. No memory, clock or thread here.

Every `Create` and `Pin` is answered exactly once, unless its client left. A newer creation of the same object
takes the name of the older one, which disappears with its last pin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import kernel_store_plasma.invariants as invariants
import kernel_store_plasma.messages as messages
from kernel_spec.errors import InternalError, ObjectStoreError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.store import (
    Abort,
    ClientLeft,
    Create,
    Delete,
    DeleteSpill,
    Failed,
    Keep,
    Pin,
    Reply,
    RestoreDone,
    RestoreFailed,
    RestoreLate,
    Seal,
    SpillDone,
    SpillFailed,
    StoredObject,
    StoreEvent,
    StoreInstruction,
    StoreUsage,
    Unpin,
)
from kernel_store_plasma.allocator import Allocator
from kernel_store_plasma.making_room import AllocationQueue
from kernel_store_plasma.table import RESTORING, SEALED, SPILLED, SPILLING, WRITING, Client, Entry, ObjectTable

HISTORY_EVENTS = 100
"""Number of latest events that a failed `validate` shows."""

Out = list[StoreInstruction]


class StoreMachine:
    """Decides for a store of `capacity` bytes, as a state machine. Calls come from one thread."""

    def __init__(self, capacity: int) -> None:
        self.table = ObjectTable(Allocator(capacity))
        self.queue = AllocationQueue(self.table)
        self.history: deque[Any] = deque(maxlen=HISTORY_EVENTS)
        self._handlers: dict[type, Callable[[Any, Out], None]] = {
            ClientLeft: self._client_left,
            Create: self._create,
            Seal: self._seal,
            Abort: self._abort,
            Pin: self._pin,
            Unpin: self._unpin,
            Keep: self._keep,
            Delete: self._delete,
            SpillDone: self._spill_done,
            SpillFailed: self._spill_failed,
            RestoreDone: self._restore_done,
            RestoreFailed: self._restore_failed,
            RestoreLate: self._restore_late,
        }

    def handle(self, event: StoreEvent) -> list[StoreInstruction]:
        """Take one event in and return what to do, in order."""
        handler = self._handlers.get(type(event))
        if handler is None:
            raise InternalError(f"the object store was given {event!r}, which is no event of kernel_spec.store")
        self.history.append(event)
        out: Out = []
        handler(event, out)
        if self.queue:
            self.queue.advance(out)
        return out

    def give_up_waiting(self) -> list[StoreInstruction]:
        """Fail the waiting object that is hardest to satisfy: the largest. Nothing while disk work is in progress."""
        entry = self.queue.hopeless()
        if entry is None:
            return []
        self.history.append("give_up_waiting")
        out: Out = []
        error = messages.no_space(entry, self.table, self.queue.spill_error)
        if entry.state == WRITING:
            assert entry.writer is not None
            out.append(Failed(entry.writer, entry.create_request, error))
            self._abandon(entry, error, out)
        else:
            self.queue.leave(entry)
            self._fail_readers(entry, error, out)
            self._forget_if_done(entry, out)
        self.queue.release_asked = False
        self.queue.advance(out)
        return out

    def usage(self) -> StoreUsage:
        """Return exact counts."""
        return self.table.usage(len(self.queue))

    def objects(self) -> list[StoredObject]:
        """Return every object held, largest first."""
        return self.table.objects()

    def validate(self) -> None:
        """Raise AssertionError, with the latest events, when an invariant is broken."""
        invariants.check(self.table, self.queue, self.history)

    # -- creation ----------------------------------------------------------------------------------------------

    def _create(self, event: Create, out: Out) -> None:
        older = self.table.current.get(event.object)
        error = self._refusal(event, older)
        if error is not None:
            out.append(Failed(event.client, event.request, error))
            return
        entry = Entry(event.object, event.size, event.owner, event.weak, event.client, event.request)
        if older is not None:
            self._supersede(older, entry, out)
        self.table.add(entry)
        if not self.queue and self.table.take_memory(entry):
            out.append(Reply(event.client, event.request, entry.location))
        else:
            self.queue.join(entry)

    def _refusal(self, event: Create, older: Entry | None) -> ObjectStoreError | None:
        size = event.size
        if type(size) is not int or size < 1:
            return messages.bad_size(event.object, size)
        if size > self.table.allocator.capacity:
            return messages.too_large(event.object, size, self.table.allocator.capacity)
        if older is not None and self._written_by(event.client, event.object) is not None:
            return messages.created_twice(event.object)
        return None

    def _supersede(self, older: Entry, newer: Entry, out: Out) -> None:
        """Give the id of `older` to `newer`, for which the readers of `older` wait from now on if it is incomplete."""
        if older.state == WRITING:
            newer.readers, older.readers = older.readers, []
            for process, _ in newer.readers:
                reading = self.table.client(process).reading
                reading.pop(older, None)
                reading[newer] = None
        self._remove(older, out)

    def _seal(self, event: Seal, out: Out) -> None:
        entry = self._written_by(event.client, event.object)
        if entry is None or entry.location is None:
            return
        entry.writer = None
        del self.table.clients[event.client].writing[entry]
        self.table.set_state(entry, SEALED)
        if event.pin:
            self.table.pin(event.client, entry)
        if entry.readers:
            self._serve_readers(entry, out)
        self._settle(entry, out)

    def _abort(self, event: Abort, out: Out) -> None:
        entry = self._written_by(event.client, event.object)
        if entry is None:
            return
        if entry in self.queue:
            out.append(Failed(event.client, entry.create_request, messages.creation_aborted(entry.object)))
        self._abandon(entry, messages.never_sealed(entry.object, event.client, died=False), out)

    def _written_by(self, client: ProcessId, object: ObjectId) -> Entry | None:
        entry = self.table.current.get(object)
        if entry is not None and entry.writer == client:
            return entry
        return next((e for e in self.table.departing.get(object, ()) if e.writer == client), None)

    def _abandon(self, entry: Entry, error: Exception, out: Out) -> None:
        """Forget an object that is being written."""
        assert entry.writer is not None
        self.queue.leave(entry)
        self.table.client(entry.writer).writing.pop(entry, None)
        entry.writer = None
        self._fail_readers(entry, error, out)
        self.table.forget(entry)

    # -- reading -----------------------------------------------------------------------------------------------

    def _pin(self, event: Pin, out: Out) -> None:
        table = self.table
        entry = table.current.get(event.object)
        if entry is None:
            absent = messages.dropped if event.object in table.dropped else messages.not_here
            out.append(Failed(event.client, event.request, absent(event.object)))
        elif entry.state == SEALED or entry.state == SPILLING:
            table.pin(event.client, entry)
            out.append(Reply(event.client, event.request, (entry.location, entry.size)))
        elif entry.late is not None:
            out.append(Failed(event.client, event.request, entry.late))
        else:
            entry.readers.append((event.client, event.request))
            table.client(event.client).reading[entry] = None
            if entry.state == SPILLED:
                self.queue.join(entry)

    def _unpin(self, event: Unpin, out: Out) -> None:
        record = self.table.clients.get(event.client)
        if record is None:
            return
        if event.object in self.table.departing:
            self._unpin_one_of_several(event, record, out)
            return
        entry = self.table.current.get(event.object)
        if entry is not None and entry in record.pins:
            self.table.unpin(event.client, entry)
            self._settle(entry, out)

    def _unpin_one_of_several(self, event: Unpin, record: Client, out: Out) -> None:
        """Unpin when the id names several objects.

        Which of them the client let go can't be told when it pins more than one: all stay until it let go of all.
        """
        held = [entry for entry in self.table.generations(event.object) if entry in record.pins]
        count = 1
        if len(held) > 1:
            count = record.owed.get(event.object, 0) + 1
            if count < sum(record.pins[entry] for entry in held):
                record.owed[event.object] = count
                return
            record.owed.pop(event.object, None)
        for entry in held:
            self.table.unpin(event.client, entry, 1 if len(held) == 1 else record.pins[entry])
            self._settle(entry, out)

    def _serve_readers(self, entry: Entry, out: Out) -> None:
        for process, request in entry.readers:
            self.table.client(process).reading.pop(entry, None)
            self.table.pin(process, entry)
            out.append(Reply(process, request, (entry.location, entry.size)))
        entry.readers = []

    def _fail_readers(self, entry: Entry, error: Exception, out: Out) -> None:
        for process, request in entry.readers:
            self.table.client(process).reading.pop(entry, None)
            out.append(Failed(process, request, error))
        entry.readers = []

    def _settle(self, entry: Entry, out: Out) -> None:
        """After a change: a sealed object that nothing holds may go, or is gone if it was deleted."""
        if entry.pin_count or entry.state != SEALED:
            return
        if entry.deleted:
            self._forget_if_done(entry, out)
        elif entry.object not in self.table.disk_work:
            self.table.becomes_idle(entry)

    def _keep(self, event: Keep, out: Out) -> None:
        entry = self.table.current.get(event.object)
        if entry is not None and entry.weak:
            self.table.keep(entry)

    # -- the end of objects and clients ------------------------------------------------------------------------

    def _delete(self, event: Delete, out: Out) -> None:
        for object in event.objects:
            entry = self.table.current.get(object)
            if entry is not None:
                self._remove(entry, out)
                continue
            owner = self.table.dropped.pop(object, None)
            if owner is not None:
                self.table.client(owner).dropped.pop(object, None)

    def _remove(self, entry: Entry, out: Out) -> None:
        self.table.depart(entry)
        self.table.not_idle(entry)
        self._forget_if_done(entry, out)

    def _forget_if_done(self, entry: Entry, out: Out) -> None:
        """Forget a deleted object that is not pinned, awaited, written or moved."""
        at_rest = entry.state == SEALED or entry.state == SPILLED
        if not (entry.deleted and at_rest) or entry.pin_count or entry.readers:
            return
        self.queue.leave(entry)
        self.table.forget(entry)
        if entry.uri is not None:
            out.append(DeleteSpill(entry.uri))
            self.queue.spill_error = None

    def _client_left(self, event: ClientLeft, out: Out) -> None:
        table, client = self.table, event.client
        record = table.clients.get(client)
        if record is None:
            return
        for entry in list(record.reading):
            entry.readers = [reader for reader in entry.readers if reader[0] != client]
            if not entry.readers and entry.state == SPILLED:
                self.queue.leave(entry)
                self._forget_if_done(entry, out)
        for entry in list(record.writing):
            self._abandon(entry, messages.never_sealed(entry.object, client, died=True), out)
        for entry, count in list(record.pins.items()):
            table.unpin(client, entry, count)
            self._settle(entry, out)
        for entry in list(record.owned):
            self._remove(entry, out)
        for object in record.dropped:
            del table.dropped[object]
        del table.clients[client]

    # -- disk work ---------------------------------------------------------------------------------------------

    def _moved(self, object: ObjectId, state: str) -> Entry | None:
        """End the disk work on an object, and return it; None when that was never asked for."""
        entry = self.table.disk_work.get(object)
        if entry is None or entry.state != state:
            return None
        del self.table.disk_work[object]
        entry.late = None
        newer = self.table.current.get(object)
        if newer is not None and newer is not entry and not self.table.is_idle(newer):
            self._settle(newer, [])
        return entry

    def _spill_done(self, event: SpillDone, out: Out) -> None:
        entry = self._moved(event.object, SPILLING)
        if entry is None:
            out.append(DeleteSpill(event.uri))
            return
        self.queue.spill_error = None
        entry.uri = event.uri
        self.table.set_state(entry, SEALED)
        if entry.deleted:
            self._forget_if_done(entry, out)
        elif not entry.pin_count:
            self.table.set_state(entry, SPILLED)
            self.table.release_memory(entry)

    def _spill_failed(self, event: SpillFailed, out: Out) -> None:
        entry = self._moved(event.object, SPILLING)
        if entry is not None:
            self.queue.spill_error = event.error
            self.table.set_state(entry, SEALED)
            self._settle(entry, out)

    def _restore_done(self, event: RestoreDone, out: Out) -> None:
        entry = self._moved(event.object, RESTORING)
        if entry is not None:
            self.table.set_state(entry, SEALED)
            self._serve_readers(entry, out)
            self._settle(entry, out)

    def _restore_failed(self, event: RestoreFailed, out: Out) -> None:
        entry = self._moved(event.object, RESTORING)
        if entry is None:
            return
        assert entry.uri is not None
        self.table.set_state(entry, SPILLED)
        self.table.release_memory(entry)
        self._fail_readers(entry, messages.restore_failed(entry.object, entry.uri, event.error), out)
        self._forget_if_done(entry, out)

    def _restore_late(self, event: RestoreLate, out: Out) -> None:
        entry = self.table.disk_work.get(event.object)
        if entry is not None and entry.state == RESTORING:
            entry.late = event.error
            self._fail_readers(entry, event.error, out)
