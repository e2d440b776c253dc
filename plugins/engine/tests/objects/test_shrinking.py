"""A table that was large once gives its room back."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_engine.objects import shrinking
from kernel_engine.objects.shrinking import LEAST, Shrinking, give_memory_back


def test_a_table_that_has_become_far_smaller_is_made_small() -> None:
    table = {number: str(number) for number in range(2 * LEAST)}
    tracked = Shrinking(table)
    assert not tracked.look()
    room = sys.getsizeof(table)
    for number in range(3, 2 * LEAST):
        del table[number]
    assert sys.getsizeof(table) == room, "or Python does this by itself, and we need not"
    assert tracked.look()
    assert sys.getsizeof(table) < room / 100
    assert table == {0: "0", 1: "1", 2: "2"}
    assert not tracked.look(), "once is enough"


def test_a_table_that_is_still_in_use_is_left_alone() -> None:
    table = {number: None for number in range(2 * LEAST)}
    tracked = Shrinking(table)
    tracked.look()
    for number in range(LEAST):
        del table[number]
    assert not tracked.look()


def test_a_table_that_never_was_large_is_left_alone() -> None:
    table = {number: None for number in range(LEAST - 1)}
    tracked = Shrinking(table)
    tracked.look()
    table.clear()
    assert not tracked.look()


def library(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    """Have the C library offer these functions."""
    monkeypatch.setattr(shrinking.sys, "platform", "linux")
    monkeypatch.setattr(shrinking.ctypes, "CDLL", lambda name: SimpleNamespace(**functions))


def test_the_c_library_is_asked_to_give_unused_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    library(monkeypatch, malloc_trim=kept.append)
    give_memory_back()
    assert kept == [0]


def test_where_memory_can_not_be_given_back_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch)
    give_memory_back()
    asked: list[int] = []
    library(monkeypatch, malloc_trim=asked.append)
    monkeypatch.setattr(shrinking.sys, "platform", "darwin")
    give_memory_back()
    assert asked == []
