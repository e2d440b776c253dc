"""Waves of work whose shape is the same for one node and for many. Who uses them says which tasks do it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from benchmarks.outcome import Outcome

Wave = Callable[[random.Random, Outcome], None]


def chain(add: Any, slow_add: Any) -> Wave:
    """Each task waits for the one before."""

    def wave(dice: random.Random, outcome: Outcome) -> None:
        start, length = dice.randrange(1000), dice.randrange(2, 30)
        ref = add.remote(start)
        for step in range(length):
            ref = (slow_add if step % 10 == 5 else add).remote(ref, 1)
        outcome.check("chain", ref, start + length)

    return wave


def diamond(add: Any, slow_add: Any) -> Wave:
    """Many depend on one, one depends on many."""

    def wave(dice: random.Random, outcome: Outcome) -> None:
        start, width = dice.randrange(1000), dice.randrange(2, 60)
        top = add.remote(start)
        bottom = slow_add.remote(*[slow_add.remote(top, number) for number in range(width)])
        outcome.check("diamond", bottom, width * start + width * (width - 1) // 2)

    return wave


def inside(nested: Any) -> Wave:
    """Tasks that submit tasks, and wait for them: `nested` returns the sum of its values, each plus one."""

    def wave(dice: random.Random, outcome: Outcome) -> None:
        values = [dice.randrange(1000) for _ in range(dice.randrange(1, 40))]
        for ref in [nested.remote(values) for _ in range(4)]:
            outcome.check("inside", ref, sum(values) + len(values))

    return wave


def streams(count_up: Any) -> Wave:
    """Generators give their items in order."""

    def wave(dice: random.Random, outcome: Outcome) -> None:
        limit = dice.randrange(1, 200)
        for number, ref in enumerate(count_up.remote(limit)):
            outcome.check("stream", ref, number)

    return wave
