"""Check the invariants of the store the slow way: recompute every count and index from scratch."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_spec.ids import ProcessId
from kernel_store_plasma.allocator import aligned
from kernel_store_plasma.making_room import AllocationQueue
from kernel_store_plasma.table import RESTORING, SEALED, SPILLED, SPILLING, WRITING, Entry, ObjectTable


def check(table: ObjectTable, queue: AllocationQueue, history: Iterable[object]) -> None:
    """Raise AssertionError, with `history`, when an invariant is broken."""
    try:
        table.allocator.validate()
        entries = table.entries()
        for entry in entries:
            _check_entry(entry, table, queue)
        _check_memory(entries, table)
        _check_counts(entries, table)
        _check_clients(entries, table)
        _check_disk_work(entries, table)
    except AssertionError as error:
        story = "\n".join(f"  {event!r:.300}" for event in history)
        raise AssertionError(
            f"the object store broke an invariant: {error}\nLatest events, oldest first:\n{story}"
        ) from error


def _check_entry(entry: Entry, table: ObjectTable, queue: AllocationQueue) -> None:
    name = f"object {entry.object.hex()} ({entry.state})"
    in_memory = entry.location is not None
    waits = entry in queue
    assert (entry.writer is not None) == (entry.state == WRITING), f"{name} has the writer {entry.writer!r}"
    if entry.state == WRITING:
        assert in_memory != waits, f"{name} has memory and waits for it, or neither"
    elif entry.state == SPILLED:
        assert not in_memory and entry.uri is not None, f"{name} has memory or no copy"
        assert waits == bool(entry.readers), f"{name} waits without readers, or has readers and does not wait"
    else:
        assert in_memory and not waits, f"{name} has no memory, or waits for it"
    if entry.state in (SEALED, SPILLING):
        assert not entry.readers, f"{name} has readers that wait for nothing"
    else:
        assert not entry.pin_count, f"{name} is pinned"
    if entry.late is not None:
        assert entry.state == RESTORING and not entry.readers, f"{name} is late, and not restored or waited for"
    if entry.weak:
        assert entry.uri is None and entry.state in (WRITING, SEALED), f"{name} is weak and was spilled"
    idle = entry.state == SEALED and not entry.pin_count and not entry.deleted
    parked = entry.object in table.disk_work
    assert table.is_idle(entry) == (idle and not parked), f"{name} is wrongly among those that may go, or not"
    if entry.deleted and entry.state in (SEALED, SPILLED):
        assert entry.pin_count or entry.readers, f"{name} is deleted, nobody needs it, and it is still there"


def _check_memory(entries: list[Entry], table: ObjectTable) -> None:
    taken = {e.location: aligned(e.size) for e in entries if e.location is not None}
    assert taken == table.allocator.blocks(), "memory that is taken differs from the objects' memory"


def _check_counts(entries: list[Entry], table: ObjectTable) -> None:
    expected = {
        "used": sum(e.size for e in entries if e.location is not None),
        "spilled": sum(e.size for e in entries if e.state == SPILLED),
        "held": sum(1 for e in entries if e.location is not None or e.uri is not None),
        "idle_bytes": sum(e.size for e in entries if table.is_idle(e)),
        "pinned_objects": sum(1 for e in entries if e.pin_count),
        "spilling_bytes": sum(aligned(e.size) for e in entries if e.state == SPILLING),
    }
    counted = {name: getattr(table, name) for name in expected}
    assert counted == expected, f"counted {counted}, but there are {expected}"


def _check_clients(entries: list[Entry], table: ObjectTable) -> None:
    for object, entry in table.current.items():
        assert entry.object == object and not entry.deleted, f"object {object.hex()} is listed under a wrong name"
        owner = table.clients.get(entry.owner)
        assert owner is not None and entry in owner.owned, f"object {object.hex()} is unknown to its owner"
    assert all(table.departing.values()), "an id without departing objects is listed"
    pins: dict[Entry, int] = dict.fromkeys(entries, 0)
    owned: dict[ProcessId, set[Entry]] = {}
    writing: dict[ProcessId, set[Entry]] = {}
    reading: dict[ProcessId, set[Entry]] = {}
    for entry in entries:
        if not entry.deleted:
            owned.setdefault(entry.owner, set()).add(entry)
        if entry.writer is not None:
            writing.setdefault(entry.writer, set()).add(entry)
        for reader, _ in entry.readers:
            reading.setdefault(reader, set()).add(entry)
    assert owned.keys() | writing.keys() | reading.keys() <= table.clients.keys(), "an object has an unknown client"
    for process, record in table.clients.items():
        for entry, count in record.pins.items():
            assert count > 0 and entry in pins, f"process {process.hex()} pins what is not there"
            pins[entry] += count
        assert set(record.owned) == owned.get(process, set()), f"process {process.hex()} owns something else"
        assert set(record.writing) == writing.get(process, set()), f"process {process.hex()} writes something else"
        assert set(record.reading) == reading.get(process, set()), f"process {process.hex()} waits for something else"
        dropped = {o for o, owner in table.dropped.items() if owner == process}
        assert set(record.dropped) == dropped, f"process {process.hex()} lost other weak objects"
    assert pins == {e: e.pin_count for e in entries}, "pins of objects and of processes differ"
    assert set(table.dropped.values()) <= set(table.clients), "a dropped object has an unknown owner"
    assert not set(table.dropped) & set(table.current), "an object is both dropped and there"


def _check_disk_work(entries: list[Entry], table: ObjectTable) -> None:
    moving = {e for e in entries if e.state in (SPILLING, RESTORING)}
    assert set(table.disk_work.values()) == moving, "disk work differs from the objects that move"
    assert all(object == e.object for object, e in table.disk_work.items()), "disk work is under a wrong name"
