"""The place of a runner among the runners of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunnerPlace:
    """The lanes of a runner, and its context.

    Attributes:
        index: Its number: 0 beside the learner, from 1 elsewhere.
        lanes: The numbers of its lanes.
        runners: How many runners there are elsewhere.
        all_lanes: How many lanes all runners have together.
        incarnation: How many died before it in this place: its environments get other seeds then.
        steps_before: How many steps each of its lanes has made before.
    """

    index: int
    lanes: tuple[int, ...]
    runners: int
    all_lanes: int
    incarnation: int = 0
    steps_before: int = 0
