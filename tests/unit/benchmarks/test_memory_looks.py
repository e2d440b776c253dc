"""How fast a process grows is told by the slope of what it holds of its own, after the warm-up."""

from __future__ import annotations

import os

import pytest

from benchmarks.memory_looks import Look, Memory, growth, look, memory_of, table


def looks_at(*owns: float) -> list[Look]:
    return [Look(10.0 * number, {"agent": Memory(own + 100, own + 50, own)}) for number, own in enumerate(owns)]


def test_growth_is_told_for_ten_minutes() -> None:
    assert growth(looks_at(10, 11, 12, 13, 14), "agent", 0.0) == pytest.approx(60.0)
    assert growth(looks_at(20, 20, 20, 20), "agent", 0.0) == pytest.approx(0.0)
    assert growth(looks_at(20, 21, 20, 21, 20), "agent", 0.0) == pytest.approx(0.0)


def test_the_warm_up_does_not_count() -> None:
    assert growth(looks_at(0, 50, 90, 90, 90), "agent", 20.0) == pytest.approx(0.0)


def test_growth_that_was_not_seen_often_enough_is_not_told() -> None:
    assert growth(looks_at(10, 11, 12), "agent", 10.0) is None
    assert growth(looks_at(10, 11, 12), "worker", 0.0) is None


def test_the_table_has_the_first_look_and_the_last_and_the_growth() -> None:
    looks = looks_at(*range(10, 35))
    looks[-1].memory["late"] = Memory(3.0, 2.0, 1.0)
    lines = table(looks, 0.0, rows=5).splitlines()
    assert lines[0] == "| minutes | agent: RSS / PSS / own | late: RSS / PSS / own |"
    assert lines[2] == "| 0.0 | 110.0 / 60.0 / 10.0 | none yet |"
    assert lines[-2] == "| 4.0 | 134.0 / 84.0 / 34.0 | 3.0 / 2.0 / 1.0 |"
    assert lines[-1] == "| **own, MB per 10 minutes** | +60.00 | not known |"
    assert 7 <= len(lines) <= 9


def test_a_process_is_looked_at_and_one_that_is_gone_is_left_out() -> None:
    own = memory_of(os.getpid())
    assert own is not None and own.resident >= own.proportional > 0 and own.own > 1
    found = look(3.0, {"this": os.getpid(), "none": 2**22 + 1})
    assert found.seconds == 3.0 and list(found.memory) == ["this"]
