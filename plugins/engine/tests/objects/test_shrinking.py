"""A table that was large once gives its room back."""

from __future__ import annotations

import sys

from kernel_engine.objects.shrinking import LEAST, Shrinking, give_memory_back


def test_a_table_that_has_become_far_smaller_is_made_small() -> None:
    table = {number: str(number) for number in range(2 * LEAST)}
    shrinking = Shrinking(table)
    assert not shrinking.look()
    room = sys.getsizeof(table)
    for number in range(3, 2 * LEAST):
        del table[number]
    assert sys.getsizeof(table) == room, "or Python does this by itself, and we need not"
    assert shrinking.look()
    assert sys.getsizeof(table) < room / 100
    assert table == {0: "0", 1: "1", 2: "2"}
    assert not shrinking.look(), "once is enough"


def test_a_table_that_is_still_in_use_is_left_alone() -> None:
    table = {number: None for number in range(2 * LEAST)}
    shrinking = Shrinking(table)
    shrinking.look()
    for number in range(LEAST):
        del table[number]
    assert not shrinking.look()


def test_a_table_that_never_was_large_is_left_alone() -> None:
    table = {number: None for number in range(LEAST - 1)}
    shrinking = Shrinking(table)
    shrinking.look()
    table.clear()
    assert not shrinking.look()


def test_memory_is_given_back_wherever_this_runs() -> None:
    give_memory_back()
