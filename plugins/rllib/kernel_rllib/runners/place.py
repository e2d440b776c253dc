"""The place of a runner among the runners of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunnerPlace:
    """The lanes of a runner, and its context.

    Attributes:
        index: Its number: 0 beside the learner, from 1 elsewhere.
        lanes: The numbers of its lanes.
        runners: The number of runners elsewhere.
        all_lanes: The number of lanes of all runners together.
        incarnation: The number of runners that died before it in this place: its environments get other seeds then.
        steps_before: The number of steps of each of its lanes before.
    """

    index: int
    lanes: tuple[int, ...]
    runners: int
    all_lanes: int
    incarnation: int = 0
    steps_before: int = 0
