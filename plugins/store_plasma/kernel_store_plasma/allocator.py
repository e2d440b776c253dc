"""Allocate space in one arena of bytes: best fit with coalescing, and warm memory before cold.

Touching a page of shared memory for the first time costs about ten times the copy into it, so memory that was used
once is used again before memory that never was. Blocks are cut from the left, hence everything below the `frontier`
has been used and everything above it never: cold space is one extent, and it is taken only when no warm block is large
enough.

Free blocks are kept by size: a sorted list of the distinct sizes, and for each size its offsets, latest freed last.
"""

from __future__ import annotations

from bisect import bisect_left, insort

ALIGNMENT = 64
"""Blocks start and end at multiples of this many bytes: a cache line, as Arrow requires."""


def aligned(size: int) -> int:
    """Return what `size` bytes occupy."""
    return (size + ALIGNMENT - 1) & -ALIGNMENT


class Allocator:
    """Hands out blocks of an arena of `capacity` bytes (rounded up to the alignment) and takes them back.

    Pure: it knows offsets, not memory. Not thread-safe. `reserved` is exact at any time.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"an arena needs a capacity of 1 byte or more, got {capacity}")
        self.capacity = aligned(capacity)
        self.frontier = 0
        """Memory below was used before (warm), memory from here on never was (cold)."""
        self.reserved = 0
        """Bytes in blocks that are handed out, with alignment."""
        self._taken: dict[int, int] = {}
        self._free_at: dict[int, int] = {}
        self._free_ending_at: dict[int, int] = {}
        self._offsets: dict[int, dict[int, None]] = {}
        self._sizes: list[int] = []

    @property
    def free(self) -> int:
        """Bytes that are not handed out."""
        return self.capacity - self.reserved

    @property
    def largest_free(self) -> int:
        """The size of the largest block that `allocate` could hand out now."""
        tail_start = self._free_ending_at.get(self.frontier, self.frontier)
        tail = self.capacity - tail_start
        return max(tail, self._sizes[-1]) if self._sizes else tail

    def fits(self, size: int) -> bool:
        """Return whether `allocate(size)` would find a block."""
        return aligned(size) <= self.largest_free

    def allocate(self, size: int) -> int | None:
        """Take the smallest warm block that holds `size` bytes (1 or more), else cold memory; return its offset.

        Returns None when no free extent is large enough.
        """
        need = aligned(size)
        index = bisect_left(self._sizes, need)
        if index < len(self._sizes):
            found = self._sizes[index]
            offset = next(reversed(self._offsets[found]))
            self._remove_free(offset, found)
            if found > need:
                self._add_free(offset + need, found - need)
        else:
            cold = self._extend(need)
            if cold is None:
                return None
            offset = cold
        self._taken[offset] = need
        self.reserved += need
        return offset

    def release(self, offset: int) -> None:
        """Take back the block at `offset`, and join it with its free neighbours.

        Raises KeyError if no block that was handed out begins there.
        """
        size = self._taken.pop(offset)
        self.reserved -= size
        after = self._free_at.get(offset + size)
        if after is not None:
            self._remove_free(offset + size, after)
            size += after
        start = self._free_ending_at.get(offset)
        if start is not None:
            self._remove_free(start, offset - start)
            size += offset - start
            offset = start
        self._add_free(offset, size)

    def blocks(self) -> dict[int, int]:
        """Return the blocks that are handed out: offset to size, with alignment."""
        return dict(self._taken)

    def validate(self) -> None:
        """Raise AssertionError when blocks overlap, leave gaps, are not joined, or are counted wrong."""
        taken = [(offset, size, False) for offset, size in self._taken.items()]
        free = [(offset, size, True) for offset, size in self._free_at.items()]
        position, previous_free = 0, False
        for offset, size, is_free in sorted(taken + free):
            assert offset == position, f"block at {offset} should start at {position}"
            assert size > 0 and size % ALIGNMENT == 0, f"block at {offset} has the size {size}"
            assert not (is_free and previous_free), f"free blocks at {offset} and before it are not joined"
            position, previous_free = offset + size, is_free
        assert position == self.frontier, f"blocks end at {position}, the frontier is {self.frontier}"
        assert self.frontier <= self.capacity, f"the frontier {self.frontier} is beyond {self.capacity}"
        assert self.reserved == sum(self._taken.values()), f"reserved is {self.reserved}"
        assert self._free_ending_at == {o + s: o for o, s in self._free_at.items()}, "ends of free blocks differ"
        by_size = {o: s for s, offsets in self._offsets.items() for o in offsets}
        assert by_size == self._free_at, "free blocks by size differ"
        assert self._sizes == sorted(self._offsets), "the list of sizes differs"
        assert all(self._offsets.values()), "a size without blocks is listed"

    def _extend(self, need: int) -> int | None:
        """Move the frontier up to make room for `need` bytes, starting in the free block just below it, if any."""
        start = self._free_ending_at.get(self.frontier, self.frontier)
        if start + need > self.capacity:
            return None
        if start < self.frontier:
            self._remove_free(start, self.frontier - start)
        self.frontier = start + need
        return start

    def _add_free(self, offset: int, size: int) -> None:
        self._free_at[offset] = size
        self._free_ending_at[offset + size] = offset
        offsets = self._offsets.get(size)
        if offsets is None:
            self._offsets[size] = {offset: None}
            insort(self._sizes, size)
        else:
            offsets[offset] = None

    def _remove_free(self, offset: int, size: int) -> None:
        del self._free_at[offset]
        del self._free_ending_at[offset + size]
        offsets = self._offsets[size]
        del offsets[offset]
        if not offsets:
            del self._offsets[size]
            del self._sizes[bisect_left(self._sizes, size)]
