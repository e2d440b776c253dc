"""A process remembers the latest of those that have ended, and not all."""

from __future__ import annotations

from kernel_engine.messages.ended_processes import EndedProcesses
from kernel_spec.ids import ProcessId

KEPT = 1000


def process(number: int) -> ProcessId:
    return ProcessId(b"%08d" % number)


def test_the_latest_are_known() -> None:
    dead = EndedProcesses(KEPT)
    for number in range(3 * KEPT):
        dead.add(process(number))
    assert len(dead) == KEPT
    assert process(3 * KEPT - 1) in dead and process(2 * KEPT) in dead
    assert process(2 * KEPT - 1) not in dead


def test_one_that_was_only_out_of_reach_is_not_dead() -> None:
    dead = EndedProcesses(KEPT)
    dead.add(process(1))
    dead.discard(process(1))
    dead.discard(process(2))
    assert process(1) not in dead and len(dead) == 0
