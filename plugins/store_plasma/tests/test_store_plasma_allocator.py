"""The allocator against a plain model of its arena."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_store_plasma.allocator import ALIGNMENT, Allocator, aligned

CAPACITY = 64 * ALIGNMENT

steps = st.lists(
    st.one_of(
        st.integers(1, 20 * ALIGNMENT).map(lambda size: ("take", size)), st.integers(0, 63).map(lambda i: ("give", i))
    ),
    max_size=80,
)


def free_extents(taken: dict[int, int], end: int) -> list[tuple[int, int]]:
    """Return the maximal gaps between the blocks below `end`, as (offset, size)."""
    gaps, position = [], 0
    for offset in sorted(taken):
        if offset > position:
            gaps.append((position, offset - position))
        position = offset + taken[offset]
    if position < end:
        gaps.append((position, end - position))
    return gaps


@given(steps)
def test_blocks_never_overlap_and_counts_are_exact(program: list[tuple[str, int]]) -> None:
    allocator = Allocator(CAPACITY)
    taken: dict[int, int] = {}
    for verb, value in program:
        if verb == "take":
            largest = max((size for _, size in free_extents(taken, CAPACITY)), default=0)
            assert allocator.largest_free == largest
            offset = allocator.allocate(value)
            assert (offset is not None) == (aligned(value) <= largest)
            if offset is not None:
                assert offset % ALIGNMENT == 0 and offset + aligned(value) <= CAPACITY
                assert all(offset + aligned(value) <= o or o + s <= offset for o, s in taken.items())
                taken[offset] = aligned(value)
        elif taken:
            offset = sorted(taken)[value % len(taken)]
            del taken[offset]
            allocator.release(offset)
        allocator.validate()
        assert allocator.blocks() == taken
        assert allocator.reserved == sum(taken.values())
        assert allocator.free == CAPACITY - allocator.reserved


@given(steps)
def test_warm_memory_comes_first_and_fits_best(program: list[tuple[str, int]]) -> None:
    allocator = Allocator(CAPACITY)
    taken: dict[int, int] = {}
    for verb, value in program:
        if verb == "take":
            before = allocator.frontier
            warm = [size for _, size in free_extents(taken, before) if size >= aligned(value)]
            gaps = dict(free_extents(taken, before))
            offset = allocator.allocate(value)
            if offset is None:
                continue
            taken[offset] = aligned(value)
            if warm:
                assert allocator.frontier == before
                assert gaps[offset] == min(warm)
            else:
                tail = before - max((o + s for o, s in taken.items() if o != offset), default=0)
                assert allocator.frontier == before + aligned(value) - tail
        elif taken:
            offset = sorted(taken)[value % len(taken)]
            del taken[offset]
            allocator.release(offset)


@given(st.lists(st.integers(1, 3 * ALIGNMENT), min_size=1, max_size=20), st.randoms())
def test_everything_given_back_is_one_block_again(sizes: list[int], random) -> None:
    allocator = Allocator(CAPACITY)
    offsets = [allocator.allocate(size) for size in sizes]
    random.shuffle(offsets)
    for offset in offsets:
        allocator.release(offset)
    assert allocator.reserved == 0
    assert allocator.largest_free == CAPACITY
    assert allocator.allocate(CAPACITY) == 0


def test_latest_freed_of_equal_blocks_is_used_first() -> None:
    allocator = Allocator(CAPACITY)
    offsets = [allocator.allocate(ALIGNMENT) for _ in range(5)]
    allocator.release(offsets[3])
    allocator.release(offsets[1])
    assert allocator.allocate(1) == offsets[1]
    assert allocator.allocate(1) == offsets[3]


def test_a_block_given_back_twice_is_refused() -> None:
    allocator = Allocator(CAPACITY)
    offset = allocator.allocate(1)
    allocator.release(offset)
    with pytest.raises(KeyError):
        allocator.release(offset)


def test_an_arena_without_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="1 byte or more, got 0"):
        Allocator(0)


def test_validate_notices_a_wrong_count() -> None:
    allocator = Allocator(CAPACITY)
    allocator.allocate(1)
    allocator.reserved += 1
    with pytest.raises(AssertionError, match="reserved is 65"):
        allocator.validate()
