"""What the head says of new needs reaches the loop, and a head that is away does not end that."""

from __future__ import annotations

import pytest
from kernel_autoscaler.shell import demand_follower
from kernel_autoscaler.shell.demand_follower import QUESTION_SECONDS, DemandFollower

from kernel_spec.errors import KernelError


def test_each_new_count_is_told_once_and_a_new_head_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand_follower, "AWAY_SECONDS", 0.0)
    monkeypatch.setattr(demand_follower, "APART_SECONDS", 0.0)
    answers: list[int | KernelError] = [0, 0, 3, KernelError("the head is away"), 3, 0, 1]
    asked: list[int] = []
    told: list[int] = []

    def wait(known: int, seconds: float) -> int:
        assert seconds == QUESTION_SECONDS
        asked.append(known)
        answer = answers.pop(0)
        if not answers:
            follower.end()
        if isinstance(answer, KernelError):
            raise answer
        return answer

    follower = DemandFollower(wait, lambda: told.append(asked[-1]))
    follower.run()
    assert asked == [-1, 0, 0, 3, 3, 3, 0]
    assert told == [-1, 0, 3], "the last answer came after the end"
