"""Which breakpoint `kernel debug NUMBER|ID` means."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.commands import Refusal
from kernel_processes.cli.debug_command import _chosen

ROWS: list[dict[str, Any]] = [
    {"id": "2d6ed3fc", "task": b"\x01" * 16},
    {"id": "61934524", "task": b"\x02" * 16},
    {"id": "2e000000", "task": b"\x03" * 16},
]


@pytest.mark.parametrize(
    ("which", "index"),
    [("1", 0), ("2", 1), ("3", 2), ("6", 1), ("2d", 0), ("61934524", 1), ("03" * 16, 2)],
)
def test_a_number_is_that_of_a_row_also_where_an_id_begins_with_it(which: str, index: int) -> None:
    assert _chosen(ROWS, which) is ROWS[index]


@pytest.mark.parametrize(("which", "said"), [("4", "'4' names no"), ("0", "'0' names no"), ("x", "'x' names no")])
def test_what_is_neither_is_refused_with_those_that_wait(which: str, said: str) -> None:
    with pytest.raises(Refusal) as caught:
        _chosen(ROWS, which)
    assert f"{said} breakpoints; those that wait are 2d6ed3fc, 61934524, 2e000000" in str(caught.value)


def test_several_are_told_apart_by_more_of_the_id() -> None:
    rows = [{"id": "b1000000", "task": b"\x01" * 16}, {"id": "b2000000", "task": b"\x02" * 16}]
    with pytest.raises(Refusal, match="'b' names several breakpoints"):
        _chosen(rows, "b")
    assert _chosen(rows, "b2") is rows[1]
