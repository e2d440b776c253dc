"""Make the errors of the store. Each says what happened, to which object, and what to do next."""

from __future__ import annotations

from kernel_spec.errors import ObjectLostError, ObjectStoreError, ObjectStoreFullError, OutOfDiskError, SpillError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_store_plasma.table import Entry, ObjectTable

BIGGEST_HOLDERS = 5
"""Number of objects that an error names."""
ADVICE = "drop references and views that are no longer needed, or raise object_store_memory"


def readable_size(size: int) -> str:
    """Return `size` in bytes and, from 1 KiB on, also in the largest unit that fits."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size} bytes ({size / factor:.1f} {unit})"
    return f"{size} bytes"


def too_large(object: ObjectId, size: int, capacity: int) -> ObjectStoreFullError:
    """Return the error for an object that is larger than the whole store. Sizes are in bytes."""
    return ObjectStoreFullError(
        f"object {object.hex()} of {readable_size(size)} can never fit into this object store of "
        f"{readable_size(capacity)}; raise object_store_memory, or split the object"
    )


def no_space(entry: Entry, table: ObjectTable, spill_error: Exception | None) -> ObjectStoreError:
    """Return the error for a request that can't get memory: all that is there is in use, or spilling fails."""
    allocator = table.allocator
    found = (
        f"no space for object {entry.object.hex()} of {readable_size(entry.size)}: of the object store's "
        f"{readable_size(allocator.capacity)}, {readable_size(allocator.reserved)} are taken and the largest free "
        f"block has {readable_size(allocator.largest_free)}"
    )
    holders = _biggest_holders(table)
    if spill_error is None:
        return ObjectStoreFullError(f"{found}, and the rest can't be spilled because it is in use. {holders}; {ADVICE}")
    kind = OutOfDiskError if isinstance(spill_error, OutOfDiskError) else SpillError
    error = kind(f"{found}, and spilling failed: {spill_error}. {holders}; make room there, {ADVICE}")
    error.__cause__ = spill_error
    return error


def bad_size(object: ObjectId, size: object) -> ObjectStoreError:
    """Return the error for a create whose size is not an int of 1 or more."""
    return ObjectStoreError(f"object {object.hex()} was asked for with size {size!r}; a size is an int of 1 or more")


def created_twice(object: ObjectId) -> ObjectStoreError:
    """Return the error for a create of an object that the same process is writing."""
    return ObjectStoreError(
        f"object {object.hex()} is being written by this same process; seal or abort it before creating it anew"
    )


def creation_aborted(object: ObjectId) -> ObjectStoreError:
    """Return the error for a create that its process aborted while it waited for memory."""
    return ObjectStoreError(f"object {object.hex()} was given up by its creator before there was space for it")


def never_sealed(object: ObjectId, writer: ProcessId, died: bool) -> ObjectLostError:
    """Return the error for a pin that waited for an object whose writer died or gave up."""
    how = "ended before the object was complete" if died else "gave the object up before it was complete"
    return ObjectLostError(f"object {object.hex()} never came to be: process {writer.hex()} {how}")


def not_here(object: ObjectId) -> ObjectLostError:
    """Return the error for a pin of an object that is not in the store."""
    return ObjectLostError(
        f"object {object.hex()} is not in this object store: it was deleted, or never completed; "
        f"keep a reference to it for as long as it is needed"
    )


def dropped(object: ObjectId) -> ObjectLostError:
    """Return the error for a pin of a weak object that was dropped for space."""
    return ObjectLostError(
        f"object {object.hex()} was a weak object and was dropped for space; "
        f"make it again, put it without weak, or raise object_store_memory"
    )


def restore_failed(object: ObjectId, uri: str, error: Exception) -> ObjectLostError:
    """Return the error for a pin of a spilled object that can't be read back."""
    lost = ObjectLostError(f"object {object.hex()} was spilled to {uri} and can't be read back: {error}")
    lost.__cause__ = error
    return lost


def _biggest_holders(table: ObjectTable) -> str:
    in_memory = sorted((e for e in table.entries() if e.location is not None), key=lambda e: (-e.size, e.object))
    named = in_memory[:BIGGEST_HOLDERS]
    pins: dict[Entry, list[str]] = {entry: [] for entry in named}
    for process, record in table.clients.items():
        for entry in named:
            if entry in record.pins:
                pins[entry].append(process.hex())
    words = [
        f"{e.object.hex()} {readable_size(e.size)}, {e.state}, owner {e.owner.hex()}, "
        f"pinned by {', '.join(pins[e]) or 'nobody'}"
        for e in named
    ]
    return f"Biggest of {len(in_memory)} objects: " + "; ".join(words) if words else "It holds no objects"
