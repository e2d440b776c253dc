"""Track which processes need which object: reference counts, borrowing, and fetching values from their owners.

The rules that keep an object alive while a reference travels:

* A process that passes references in a task holds them until the task is done. The worker registers itself as a
  borrower with the owner: when the owner is the caller, on the connection that later carries the result, so in
  order; otherwise it waits for the owner's acknowledgement before it sends the result.
* A process that sends a value with references inside registers the receiver itself where it is the owner. For the
  others it keeps a hold until the receiver has registered with their owner and says `SETTLED`.
* Registrations are counted, so a release that crosses a new registration on the way removes only the old ones.

Everything here runs under the process's lock unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kernel.runtime.object_entry import (
    FAILED,
    FREED,
    INLINE,
    LOST,
    PENDING,
    STORED,
    ObjectDetails,
    ObjectEntry,
    dropped,
)
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.waiter import Waiter
from kernel_engine.failures.failure_reports import FailureReports
from kernel_engine.failures.failures import lost, owner_died
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.ended_processes import EndedProcesses
from kernel_engine.messages.named_messages import Message, packed
from kernel_engine.objects.acknowledgements import Acknowledgements, Arrival
from kernel_engine.objects.recipes import NoRecipes, Recipes
from kernel_engine.objects.shrinking import Shrinking, give_memory_back
from kernel_engine.objects.store_deletions import StoreDeletions
from kernel_engine.objects.value_placement import in_message
from kernel_spec.ids import ObjectId, ProcessId

if TYPE_CHECKING:
    from kernel_engine.surroundings import EngineConnection, EnginePeer, EngineProcess, EngineStore

Carried = Sequence[tuple[ObjectId, ProcessId, str]]
DEAD_OWNERS_KEPT = 1000
"""Number of ended owners that are remembered. A request to a forgotten one finds out again that it has ended."""


class Ownership:
    """Holds all objects that this process owns or borrows."""

    def __init__(self, process: EngineProcess, store: EngineStore) -> None:
        self.process = process
        self.objects: dict[ObjectId, ObjectEntry] = {}
        self._shrinking = Shrinking(self.objects)
        self._store = store
        self._acknowledgements = Acknowledgements()
        self._transit: dict[tuple[ProcessId, bytes], list[ObjectEntry]] = {}
        self._deletions = StoreDeletions(process, store)
        self._releases: dict[tuple[ProcessId, str], list[tuple[ObjectId, int]]] = {}
        self.dead_owners = EndedProcesses(DEAD_OWNERS_KEPT)
        self.recipes: Recipes = NoRecipes()
        """Makes lost objects again; set by `kernel_processes.runtime.lineage`, if there is a lineage."""
        self.failures = FailureReports(process.lock)
        process.handlers |= {
            op.FETCH: self._on_fetch,
            op.OBJECT: self._on_object,
            op.BORROW: self._on_borrow,
            op.BORROWED: self._on_borrowed,
            op.UNBORROW: self._on_unborrow,
            op.SETTLED: self._on_settled,
            op.COPIED: self._on_copied,
        }
        self._unheld: list[ObjectEntry] = []
        self._freeing = False
        process.on_peer_lost.append(self._on_peer_lost)
        process.on_peer_met = self.dead_owners.discard
        for leftovers in (dropped, self._deletions.here, self._deletions.elsewhere, self._releases):
            process.after_batch(leftovers, self.drain)
        store.drop_idle_views = self.drop_idle_views

    # -- references of this process --------------------------------------------------------------------------------

    def adopt(self, id: ObjectId, owner: ProcessId, address: str, arrival: Arrival | None) -> ObjectRef:
        """Return a reference that was deserialized here, registering as a borrower if it is new (any thread)."""
        with self.process.lock:
            entry = self.objects.get(id)
            if entry is None:
                entry = self._meet(id, owner, address)
                if owner != self.process.id:
                    self._register(entry, arrival)
            entry.local += 1
            return ObjectRef(entry)

    def drain(self) -> None:
        """Count references that were collected, free unneeded objects, and tell owners and the store."""
        self._shrinking.look()
        while dropped:
            entry = dropped.popleft()
            entry.local -= 1
            if entry.local <= 0 and self.objects.get(entry.id) is entry:
                self.free_unneeded(entry)
        if self._shrinking.look():
            give_memory_back()
        self._store.drain_released()
        deletions = self._deletions
        if deletions.here or deletions.elsewhere:
            deletions.tell()
        while self._releases:
            (owner, address), items = self._releases.popitem()
            self._tell(owner, address, (op.UNBORROW, items))

    def hold(self, entries: Iterable[ObjectEntry]) -> None:
        """Keep entries alive until `release`."""
        for entry in entries:
            entry.holds += 1

    def release(self, entries: Iterable[ObjectEntry]) -> None:
        """Undo `hold`."""
        for entry in entries:
            entry.holds -= 1
            self._unheld.append(entry)
        self._free_unheld()

    def reconsider(self, entry: ObjectEntry) -> None:
        """Free an entry if it is not needed, after all entries that are being freed already."""
        self._unheld.append(entry)
        self._free_unheld()

    def _free_unheld(self) -> None:
        """Free unneeded entries, and those that only they needed, in a loop: a chain may be longer than the stack."""
        if self._freeing:
            return
        self._freeing = True
        try:
            while self._unheld:
                self.free_unneeded(self._unheld.pop())
        finally:
            self._freeing = False

    def free_unneeded(self, entry: ObjectEntry) -> None:
        """Free the entry if it is not needed and no task is going to write it."""
        details = entry.details
        if entry.local > 0 or entry.holds > 0 or (details is not None and details.borrowers):
            return
        if entry.state == PENDING and entry.task is not None:
            return
        if details is not None and details.may_go is not None and not details.may_go():
            return
        if details is not None and details.recipe_users:
            self._free_value(entry, details)
            return
        if self.objects.pop(entry.id, None) is None:
            return
        self._delete_copies(entry)
        if details is None:
            return
        details.view = None
        if details.recipe is not None:
            self.recipes.drop(entry)
        if details.owner is not None and details.debt:
            key = (details.owner, details.address)
            self._releases.setdefault(key, []).append((entry.id, details.debt))
        if details.contained:
            self.release(details.contained)

    def _free_value(self, entry: ObjectEntry, details: ObjectDetails) -> None:
        """Free an unneeded value, but keep its recipe: another object that needs it may be lost."""
        self._delete_copies(entry)
        if entry.state in (STORED, LOST):
            entry.state, entry.value, details.view = FREED, None, None
            contained, details.contained = details.contained, None
            self.release(contained or ())
            self.recipes.value_freed(entry)

    def _delete_copies(self, entry: ObjectEntry) -> None:
        """Delete an own object from all stores, also from those that can't read their copy."""
        if entry.owner is None and (entry.state == STORED or (entry.state == LOST and entry.value[2])):
            self.delete_at(entry.id, entry.value[1])

    def delete_at(self, id: ObjectId, places: Sequence[str]) -> None:
        """Delete an object from the stores of `places`, soon."""
        self._deletions.add(id, places)

    def clear_away(self, results: Iterable[ObjectEntry], place: str) -> None:
        """Delete results that a process at `place` may have stored before it died, unless they are still announced."""
        self._deletions.clear_away(results, place)

    def keep_at(self, id: ObjectId, place: str) -> None:
        """Make the store of `place` keep its copy, since the copy that it was made from may be gone."""
        self._store.keep_at(place, id)

    def contain(self, entry: ObjectEntry, inner: Iterable[ObjectRef]) -> None:
        """Note that the value of `entry` holds the references `inner`."""
        entries = [ref._entry for ref in inner]
        self.hold(entries)
        entry.more().contained = entries

    def drop_idle_views(self) -> None:
        """Forget mapped values that no user value points into."""
        for entry in list(self.objects.values()):  # `put` adds to them without the lock.
            if entry.details is not None:
                entry.details.view = None

    # -- references that travel ------------------------------------------------------------------------------------

    def carry(self, inner: Iterable[ObjectEntry], receiver: ProcessId, key: bytes) -> Carried:
        """Prepare references for a message to `receiver`; return what to put into it under `key`."""
        carried = []
        for entry in inner:
            owner = entry.owner
            if owner is None:
                borrowers = entry.more().borrowers
                if borrowers is None:
                    borrowers = entry.more().borrowers = {}
                borrowers[receiver] = borrowers.get(receiver, 0) + 1
                carried.append((entry.id, self.process.id, self.process.address))
            else:
                if owner != receiver:
                    entry.holds += 1
                    self._transit.setdefault((receiver, key), []).append(entry)
                assert entry.details is not None
                carried.append((entry.id, owner, entry.details.address))
        return carried

    def accept_carried(self, entry: ObjectEntry, carried: Carried, sender: ProcessId, key: bytes) -> None:
        """Register the references that came with the value of `entry` from `sender`."""
        inner: list[ObjectEntry] = []
        strangers: list[ObjectEntry] = []
        for id, owner, address in carried:
            found = self.objects.get(id)
            if found is None:
                found = self._meet(id, owner, address)
            if owner == sender:
                found.more().debt += 1
            elif owner != self.process.id:
                strangers.append(found)
            found.holds += 1
            inner.append(found)
        previous = entry.more().contained
        entry.more().contained = inner if previous is None else previous + inner
        if strangers:
            self._register_many(strangers, sender, key)

    def discard(self, id: ObjectId, result: tuple[Any, ...], carried: Carried, sender: ProcessId) -> None:
        """Drop a result that is not awaited, or that arrived before."""
        self._decline(id, carried, sender)
        entry = self.objects.get(id)
        if result[0] != 2:
            return
        if entry is None or entry.state != STORED:
            self.delete_at(id, result[2])
        else:  # Its task ran again for another result, and made it again, too.
            entry.value = (entry.value[0], tuple(dict.fromkeys((*entry.value[1], *result[2]))))

    def _decline(self, id: ObjectId, carried: Carried, sender: ProcessId) -> None:
        """Take the references that came with a value, as they are registered for this process, and let them go."""
        if carried:
            temporary = ObjectEntry(id, 0)
            self.accept_carried(temporary, carried, sender, id)
            self.release(temporary.more().contained or ())

    def _register(self, entry: ObjectEntry, arrival: Arrival | None) -> None:
        """Become a borrower of one new entry that arrived in a task's arguments or function."""
        details = entry.more()
        details.debt += 1
        number = 0
        assert details.owner is not None
        if arrival is not None and arrival.sender != details.owner:
            arrival.unsettled.remaining += 1
            number = self._acknowledgements.expect(details.owner, arrival.unsettled.complete)
        if not self._tell(details.owner, details.address, (op.BORROW, [entry.id], number)) and number:
            self._acknowledgements.arrived(number)

    def _register_many(self, entries: list[ObjectEntry], sender: ProcessId, key: bytes) -> None:
        by_owner: dict[tuple[ProcessId, str], list[ObjectEntry]] = {}
        for entry in entries:
            details = entry.more()
            details.debt += 1
            assert details.owner is not None
            by_owner.setdefault((details.owner, details.address), []).append(entry)
        remaining = Waiter(len(by_owner))

        def settled() -> None:
            remaining.complete()
            if remaining.remaining == 0:
                self._tell(sender, "", (op.SETTLED, key))

        for (owner, address), group in by_owner.items():
            number = self._acknowledgements.expect(owner, settled)
            if not self._tell(owner, address, (op.BORROW, [e.id for e in group], number)):
                self._acknowledgements.arrived(number)

    def report_lost(self, id: ObjectId, places: Sequence[str], why: str, owner: ProcessId, address: str) -> None:
        """Tell the owner of an object that none of `places` could give it, and why. Under the lock."""
        self._tell(owner, address, packed(op.LostAt(object=id, places=tuple(places), why=why)))

    # -- fetching --------------------------------------------------------------------------------------------------

    def fetch(self, entry: ObjectEntry) -> None:
        """Ask the owner of a borrowed pending entry for its value (once)."""
        details = entry.details
        if entry.state != PENDING or details is None or details.owner is None or details.fetching:
            return
        details.fetching = True
        if details.owner in self.dead_owners or not self._tell(details.owner, details.address, (op.FETCH, [entry.id])):
            self._owner_died(entry)

    def outcome(self, entry: ObjectEntry, receiver: ProcessId) -> tuple[int, Any, Carried]:
        """Return (kind, value, carried) of a ready entry for a message to `receiver`."""
        if entry.state == FAILED:
            self.failures.asked(entry)
            return op.FAILED, entry.value, ()
        contained = entry.details.contained if entry.details is not None else None
        carried = self.carry(contained, receiver, entry.id) if contained else ()
        return op.RESULTS, in_message(entry.state, entry.value), carried

    def settle(
        self, entry: ObjectEntry, result: tuple[Any, ...], carried: Carried, sender: ProcessId, key: bytes
    ) -> None:
        """Give a pending entry the result that came in a message."""
        if carried:
            self.accept_carried(entry, carried, sender, key)
        kind = result[0]
        if kind == 0:
            entry.resolve(INLINE, result[1])
        elif kind == 1:
            entry.resolve(INLINE, (result[1], result[2]))
        else:
            entry.resolve(STORED, (result[1], result[2]))
        self.free_unneeded(entry)

    # -- messages --------------------------------------------------------------------------------------------------

    def _on_fetch(self, connection: EngineConnection, message: Message) -> None:
        for id in message[1]:
            entry = self.objects.get(id)
            if entry is None:
                failure = lost(id, "its owner has freed it")
                self.process.send(connection, (op.OBJECT, id, op.FAILED, failure, ()))
                continue
            if entry.state >= LOST:
                self.recipes.recover(entry)
            if entry.state == PENDING:
                self.fetch(entry)
                entry.when_ready(lambda ready, c=connection: self._answer_fetch(ready, c))  # type: ignore[misc]
            else:
                self._answer_fetch(entry, connection)

    def _answer_fetch(self, entry: ObjectEntry, connection: EngineConnection) -> None:
        if not connection.closed:
            self.process.send(connection, (op.OBJECT, entry.id, *self.outcome(entry, connection.info.id)))

    def _on_object(self, connection: EngineConnection, message: Message) -> None:
        _, id, kind, value, carried = message
        entry = self.objects.get(id)
        if entry is None or entry.state != PENDING:
            self._decline(id, carried, connection.info.id)
            return
        if kind == op.FAILED:
            entry.resolve(FAILED, tuple(value))
            self.free_unneeded(entry)
        else:
            self.settle(entry, value, carried, connection.info.id, id)

    def _on_copied(self, connection: EngineConnection, message: Message) -> None:
        """Note that another node has a copy now; if the object is not needed any more, delete that copy, too."""
        _, id, place = message
        entry = self.objects.get(id)
        if entry is None or entry.state != STORED:
            self.delete_at(id, (place,))
        elif place not in entry.value[1]:
            entry.value = (entry.value[0], (*entry.value[1], place))

    def _on_borrow(self, connection: EngineConnection, message: Message) -> None:
        borrower = connection.info.id
        for id in message[1]:
            entry = self.objects.get(id)
            if entry is not None:
                details = entry.more()
                if details.borrowers is None:
                    details.borrowers = {}
                details.borrowers[borrower] = details.borrowers.get(borrower, 0) + 1
        if message[2]:
            self.process.send(connection, (op.BORROWED, message[2]))

    def _on_borrowed(self, connection: EngineConnection, message: Message) -> None:
        self._acknowledgements.arrived(message[1])

    def _on_unborrow(self, connection: EngineConnection, message: Message) -> None:
        borrower = connection.info.id
        for id, count in message[1]:
            entry = self.objects.get(id)
            borrowers = entry.details.borrowers if entry is not None and entry.details is not None else None
            if entry is not None and borrowers and borrower in borrowers:
                borrowers[borrower] -= count
                if borrowers[borrower] <= 0:
                    del borrowers[borrower]
                    self.free_unneeded(entry)

    def _on_settled(self, connection: EngineConnection, message: Message) -> None:
        self.release(self._transit.pop((connection.info.id, message[1]), ()))

    def _on_peer_lost(self, peer: EnginePeer, reason: str) -> None:
        self.dead_owners.add(peer.id)
        for key in [key for key in self._transit if key[0] == peer.id]:
            self.release(self._transit.pop(key))
        self._acknowledgements.lost(peer.id)
        for entry in list(self.objects.values()):
            details = entry.details
            if details is None:
                continue
            if details.borrowers and details.borrowers.pop(peer.id, None):
                self.free_unneeded(entry)
            if details.owner == peer.id and entry.state == PENDING:
                self._owner_died(entry)

    def _owner_died(self, entry: ObjectEntry) -> None:
        entry.resolve(FAILED, owner_died(entry.id, entry.owner))
        self.free_unneeded(entry)

    # -- small things ----------------------------------------------------------------------------------------------

    def _meet(self, id: ObjectId, owner: ProcessId, address: str) -> ObjectEntry:
        """Take in an object of which a reference came here, and which is not known."""
        entry = self.objects[id] = ObjectEntry(id, 0)
        if owner == self.process.id:
            entry.resolve(FAILED, lost(id, "it was freed by its owner before this reference came back"))
        else:
            details: ObjectDetails = entry.more()
            details.owner, details.address = owner, address
        return entry

    def _tell(self, process: ProcessId, address: str, message: Message) -> bool:
        """Send to a process; return False when it is gone."""
        if process in self.dead_owners:
            return False
        try:
            self.process.send(self.process.peer(process, address), message)
        except OSError:
            self.dead_owners.add(process)
            return False
        return True
