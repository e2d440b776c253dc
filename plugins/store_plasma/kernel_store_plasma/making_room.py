"""Decide which object that waits for memory gets it next, and which others are dropped or spilled to make room for it.

First come, first served, except that an object further back may pass while the first can only wait for others to
unpin: the space it takes may be what they need to get done.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from kernel_spec.store import ReadSpill, ReleaseIdle, Reply, StoreInstruction, WriteSpill
from kernel_store_plasma.allocator import aligned
from kernel_store_plasma.table import RESTORING, SPILLED, SPILLING, WRITING, Entry, ObjectTable

LOOK_AHEAD = 16
"""Number of waiting objects for which room is made at once, so that several spills run together."""


class AllocationQueue:
    """Holds the objects that wait for memory, to be written (new ones) or read (spilled ones), in order."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        self._queue: OrderedDict[Entry, None] = OrderedDict()
        self.spill_error: Exception | None = None
        """The error by which spilling failed last; None once it is to be tried again."""
        self.release_asked = False

    def __len__(self) -> int:
        return len(self._queue)

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._queue

    def join(self, entry: Entry) -> None:
        """Put an object at the end of the queue, unless it is in it. Then spilling is tried once more."""
        if entry not in self._queue:
            self._queue[entry] = None
            self.spill_error = None

    def leave(self, entry: Entry) -> None:
        """Take an object out of the queue, if it is in it."""
        self._queue.pop(entry, None)

    def hopeless(self) -> Entry | None:
        """Return the object to give up first: the largest, the latest among equals; None while disk work moves."""
        if any(entry.late is None for entry in self._table.disk_work.values()):
            return None
        return max(reversed(self._queue), key=lambda entry: entry.size, default=None)

    def advance(self, out: list[StoreInstruction]) -> None:
        """Give memory to those whose turn it is, and make space for the next."""
        while self._queue:
            first = next(iter(self._queue))
            if self._place(first, out):
                self.release_asked = False
                continue
            if not self._make_space(first, out):
                break
        else:
            return
        if not self._table.spilling_bytes:
            for entry in list(islice(self._queue, 1, None)):
                self._place(entry, out)
        on_the_way = self._table.allocator.largest_free + self._table.spilling_bytes
        if not self.release_asked and self._table.pinned_objects and on_the_way < aligned(first.size):
            self.release_asked = True
            out.append(ReleaseIdle())

    def _place(self, entry: Entry, out: list[StoreInstruction]) -> bool:
        """Give an object memory, if there is any, and say what follows."""
        table = self._table
        another_is_moving = entry.state == SPILLED and entry.object in table.disk_work
        if another_is_moving or not table.take_memory(entry):
            return False
        del self._queue[entry]
        if entry.state == WRITING:
            assert entry.writer is not None
            out.append(Reply(entry.writer, entry.create_request, entry.location))
        else:
            assert entry.uri is not None
            table.set_state(entry, RESTORING)
            table.disk_work[entry.object] = entry
            for other in table.generations(entry.object):
                table.not_idle(other)  # Until this one's disk work is done.
            out.append(ReadSpill(entry.object, entry.uri, entry.location, entry.size))
        return True

    def _make_space(self, first: Entry, out: list[StoreInstruction]) -> bool:
        """Let objects go until `first` can be placed (True), or enough is on its way, or no more may go (False)."""
        table = self._table
        allocator = table.allocator
        if first.state == SPILLED and first.object in table.disk_work:
            return False
        wanted = self._wanted()
        while not allocator.fits(first.size):
            if table.idle_weak:
                table.drop(next(iter(table.idle_weak)))
                continue
            leaving = table.spilling_bytes
            enough_for_first = allocator.largest_free + leaving >= aligned(first.size)
            if enough_for_first and allocator.free + leaving >= wanted:
                return False
            victim = self._victim()
            if victim is None:
                return False
            self._evict(victim, out)
        return True

    def _wanted(self) -> int:
        """Return what the next in the queue need together, up to a quarter of the store beyond the first."""
        sizes = [aligned(entry.size) for entry in islice(self._queue, LOOK_AHEAD)]
        return min(sum(sizes), sizes[0] + self._table.allocator.capacity // 4, self._table.allocator.capacity)

    def _victim(self) -> Entry | None:
        """Return the least recently used object that may go; while spilling fails, one that has its copy already."""
        idle = self._table.idle
        if self.spill_error is None:
            return next(iter(idle), None)
        return next((entry for entry in idle if entry.uri is not None), None)

    def _evict(self, entry: Entry, out: list[StoreInstruction]) -> None:
        """Start to spill an idle object, or free its memory at once when its copy is there already."""
        table = self._table
        table.not_idle(entry)
        if entry.uri is not None:
            table.set_state(entry, SPILLED)
            table.release_memory(entry)
        else:
            table.set_state(entry, SPILLING)
            table.disk_work[entry.object] = entry
            out.append(WriteSpill(entry.object, entry.location, entry.size))
