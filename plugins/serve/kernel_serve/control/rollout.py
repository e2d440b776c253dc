"""The steps of an update: how many replicas to start now, and how many of the old ones to stop.

New replicas come first (a surge), at most a step of them at a time. An old one stops only while as many replicas as
wanted take requests without it. Where there is no room for a surge, one old replica stops first.
"""

from __future__ import annotations

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts the replicas of a deployment at a moment. *New* ones match the goal, *old* ones are to be replaced.

    `leaving` are old ones on nodes that are about to leave: those can't wait for small steps.
    """

    wanted: int
    step: int
    new_starting: int
    new_running: int
    old_running: int
    leaving: int
    """The number of old ones on nodes that are about to leave."""
    stopping: int
    stuck: bool = False
    """Whether a new replica has waited for room for `STUCK_SECONDS`, on a node that is large enough for it."""


def step_of(wanted: int, percentage: float) -> int:
    """Return how many replicas are replaced at a time."""
    return max(1, int(wanted * percentage))


def to_start(counts: Counts) -> int:
    """Return how many new replicas to start."""
    new = counts.new_starting + counts.new_running
    missing = counts.wanted - new
    if missing <= 0 or not counts.old_running:
        return max(0, missing)
    staying = new + counts.old_running - counts.leaving
    room = counts.wanted + counts.step - staying
    room = min(room, room + counts.step - counts.stopping)
    return max(0, min(missing, room))


def to_stop(counts: Counts) -> int:
    """Return how many running old replicas are not needed any more."""
    return max(0, min(counts.new_running + counts.old_running - counts.wanted, counts.old_running))


def must_make_room(counts: Counts) -> bool:
    """Return whether an old replica (on a node that stays) must stop though it is needed.

    It must where a new one finds no room beside it. The deployment then lacks one step of replicas at most.
    """
    if not counts.stuck or counts.stopping or counts.old_running <= counts.leaving:
        return False
    return counts.new_running + counts.old_running > counts.wanted - counts.step
