"""Ranges of bytes, compared with a plain set of positions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kernel_network_tcp.transfer.ranges import Ranges

PIECES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=20)


def filled(pieces: list[tuple[int, int]]) -> tuple[Ranges, set[int]]:
    ranges, positions = Ranges(), set()
    for start, length in pieces:
        ranges.add(start, start + length)
        positions |= set(range(start, start + length))
        ranges.validate()
    return ranges, positions


@given(PIECES, st.integers(0, 80), st.integers(0, 20))
def test_what_was_added_is_covered(pieces: list[tuple[int, int]], start: int, length: int) -> None:
    ranges, positions = filled(pieces)
    assert ranges.total == len(positions)
    assert {p for first, last in ranges for p in range(first, last)} == positions
    assert ranges.cover(start, start + length) == set(range(start, start + length)).issubset(positions)


@given(PIECES, st.integers(1, 25))
def test_the_front_goes_first(pieces: list[tuple[int, int]], most: int) -> None:
    ranges, positions = filled(pieces)
    taken: list[int] = []
    while ranges:
        start, end = ranges.remove_first(most)
        assert 0 < end - start <= most
        taken += range(start, end)
        ranges.validate()
    assert taken == sorted(positions)


def test_it_can_be_printed() -> None:
    assert repr(filled([(5, 5), (0, 2)])[0]) == "0-2 5-10"
    assert repr(Ranges()) == "none"
