"""Hold every object and client of the store, with the counts that follow from them.

The table keeps its indexes and sums consistent; `machine.py` decides what should happen next. An object id may be in
use twice: a deleted object that somebody still reads stays, apart, until its last pin is gone, and the same id may be
created anew meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict

from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.store import StoredObject, StoreUsage
from kernel_store_plasma.allocator import Allocator, aligned

WRITING = "writing"
SEALED = "sealed"
SPILLING = "spilling"
SPILLED = "spilled"
RESTORING = "restoring"


class Entry:
    """Holds one object. `location` is None while it has no memory; `readers` are the pins that wait for it.

    `late` is why nobody waits for an object that is being restored: the spill target hangs.
    """

    __slots__ = (
        "create_request",
        "deleted",
        "late",
        "location",
        "object",
        "owner",
        "pin_count",
        "readers",
        "size",
        "state",
        "uri",
        "weak",
        "writer",
    )

    def __init__(
        self, object: ObjectId, size: int, owner: ProcessId, weak: bool, writer: ProcessId, create_request: int
    ) -> None:
        self.object = object
        self.size = size
        self.owner = owner
        self.weak = weak
        self.state = WRITING
        self.location: int | None = None
        self.pin_count = 0
        self.writer: ProcessId | None = writer
        self.create_request = create_request
        self.uri: str | None = None
        self.deleted = False
        self.late: Exception | None = None
        self.readers: list[tuple[ProcessId, int]] = []


class Client:
    """Holds the objects and pins of one process. `owed` counts unpins that can't be told apart yet."""

    __slots__ = ("dropped", "owed", "owned", "pins", "reading", "writing")

    def __init__(self) -> None:
        self.owned: dict[Entry, None] = {}
        self.pins: dict[Entry, int] = {}
        self.writing: dict[Entry, None] = {}
        self.reading: dict[Entry, None] = {}
        self.dropped: dict[ObjectId, None] = {}
        self.owed: dict[ObjectId, int] = {}


class ObjectTable:
    """Holds objects by id, clients by process, and the objects that may go, least recently used first."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self.current: dict[ObjectId, Entry] = {}
        self.departing: dict[ObjectId, list[Entry]] = {}
        """Deleted objects that are still written, read, spilled or restored."""
        self.clients: dict[ProcessId, Client] = {}
        self.idle: OrderedDict[Entry, None] = OrderedDict()
        """Sealed, in memory, unpinned: may be spilled, least recently used first."""
        self.idle_weak: OrderedDict[Entry, None] = OrderedDict()
        """The same for weak objects: may be dropped."""
        self.disk_work: dict[ObjectId, Entry] = {}
        """Being spilled or restored; one at a time for each id, so that the answers can be told apart."""
        self.dropped: dict[ObjectId, ProcessId] = {}
        """Weak objects that were dropped and are not deleted yet, with their owners."""
        self.held = 0
        """How many objects have memory or a spilled copy."""
        self.used = 0
        self.spilled = 0
        self.idle_bytes = 0
        self.pinned_objects = 0
        self.spilling_bytes = 0
        """What the spills in progress will give back, with alignment."""

    def client(self, process: ProcessId) -> Client:
        """Return the record of `process`, made on first use."""
        record = self.clients.get(process)
        if record is None:
            record = self.clients[process] = Client()
        return record

    # -- objects -----------------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        """Take in a new object, which is being written. Its id must not be current."""
        self.current[entry.object] = entry
        self.client(entry.owner).owned[entry] = None
        self.client(entry.writer).writing[entry] = None  # type: ignore[arg-type]
        owner = self.dropped.pop(entry.object, None)
        if owner is not None:
            self.client(owner).dropped.pop(entry.object, None)

    def depart(self, entry: Entry) -> None:
        """Take a current object's name away; it stays until it is forgotten."""
        entry.deleted = True
        del self.current[entry.object]
        self.departing.setdefault(entry.object, []).append(entry)
        record = self.clients.get(entry.owner)
        if record is not None:
            record.owned.pop(entry, None)

    def forget(self, entry: Entry) -> None:
        """Remove an object, current or departing, that is not pinned, awaited or being moved."""
        if entry.deleted:
            generations = self.departing[entry.object]
            generations.remove(entry)
            if not generations:
                del self.departing[entry.object]
        else:
            del self.current[entry.object]
            record = self.clients.get(entry.owner)
            if record is not None:
                record.owned.pop(entry, None)
        self.not_idle(entry)
        self.set_state(entry, SEALED)
        if entry.location is not None or entry.uri is not None:
            self.held -= 1
        if entry.location is not None:
            self.release_memory(entry)

    def drop(self, entry: Entry) -> None:
        """Forget an idle weak object, but remember that it was dropped until its owner deletes it."""
        self.forget(entry)
        self.dropped[entry.object] = entry.owner
        self.client(entry.owner).dropped[entry.object] = None

    def keep(self, entry: Entry) -> None:
        """Let a weak object be one that is spilled, not dropped."""
        idle = self.is_idle(entry)
        self.not_idle(entry)
        entry.weak = False
        if idle:
            self.becomes_idle(entry)

    def set_state(self, entry: Entry, state: str) -> None:
        """Change an object's state and the sums that depend on it."""
        if entry.state == SPILLED:
            self.spilled -= entry.size
        elif entry.state == SPILLING:
            self.spilling_bytes -= aligned(entry.size)
        entry.state = state
        if state == SPILLED:
            self.spilled += entry.size
        elif state == SPILLING:
            self.spilling_bytes += aligned(entry.size)

    def generations(self, object: ObjectId) -> list[Entry]:
        """Return the current object of that id, if any, and the departing ones."""
        current = self.current.get(object)
        departing = self.departing.get(object, [])
        return [current, *departing] if current is not None else departing

    # -- memory ------------------------------------------------------------------------------------------------

    def take_memory(self, entry: Entry) -> bool:
        """Give memory to an object that has none. Return False if there is not enough."""
        location = self.allocator.allocate(entry.size)
        if location is None:
            return False
        entry.location = location
        self.used += entry.size
        if entry.uri is None:
            self.held += 1
        return True

    def release_memory(self, entry: Entry) -> None:
        """Free an object's memory."""
        assert entry.location is not None
        self.allocator.release(entry.location)
        entry.location = None
        self.used -= entry.size

    def becomes_idle(self, entry: Entry) -> None:
        """Note that a sealed object in memory is not held any more; it may go, after all that are idle."""
        queue = self.idle_weak if entry.weak else self.idle
        queue[entry] = None
        self.idle_bytes += entry.size

    def is_idle(self, entry: Entry) -> bool:
        """Return whether the object is idle, so that it may be dropped or spilled."""
        return entry in (self.idle_weak if entry.weak else self.idle)

    def not_idle(self, entry: Entry) -> None:
        """Note that an object is held again, or is not in memory any more."""
        queue = self.idle_weak if entry.weak else self.idle
        if entry in queue:
            del queue[entry]
            self.idle_bytes -= entry.size

    # -- pins --------------------------------------------------------------------------------------------------

    def pin(self, process: ProcessId, entry: Entry) -> None:
        """Count one pin more."""
        pins = self.client(process).pins
        pins[entry] = pins.get(entry, 0) + 1
        if not entry.pin_count:
            self.pinned_objects += 1
            self.not_idle(entry)
        entry.pin_count += 1

    def unpin(self, process: ProcessId, entry: Entry, count: int = 1) -> None:
        """Count `count` pins of `process` less; it has that many."""
        pins = self.clients[process].pins
        left = pins[entry] - count
        if left:
            pins[entry] = left
        else:
            del pins[entry]
        entry.pin_count -= count
        if not entry.pin_count:
            self.pinned_objects -= 1

    # -- answers -----------------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Return every object, current and departing, also those that wait for memory."""
        return [*self.current.values(), *(entry for several in self.departing.values() for entry in several)]

    def usage(self, waiting: int) -> StoreUsage:
        """Return exact counts; objects that never had memory yet count as waiting only."""
        leaving = sum(e.size for e in self.disk_work.values() if e.state == SPILLING and not e.pin_count)
        return StoreUsage(
            capacity=self.allocator.capacity,
            used=self.used,
            reserved=self.allocator.reserved,
            pinned=self.used - self.idle_bytes - leaving,
            spilled=self.spilled,
            objects=self.held,
            waiting=waiting,
        )

    def objects(self) -> list[StoredObject]:
        """Return every object that has memory or a spilled copy, largest first."""
        pins: dict[Entry, dict[ProcessId, int]] = {}
        for process, record in self.clients.items():
            for entry, count in record.pins.items():
                pins.setdefault(entry, {})[process] = count
        held = [e for e in self.entries() if e.location is not None or e.uri is not None]
        held.sort(key=lambda e: (-e.size, e.object))
        return [StoredObject(e.object, e.owner, e.size, e.state, pins.get(e, {}), e.weak) for e in held]
