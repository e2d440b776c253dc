"""Transitions: n steps at a time, the same however steps are cut into fragments."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_rllib.data.batch import Batch, concatenated
from kernel_rllib.data.fragment import Fragment, followed_by
from kernel_rllib.errors import DataError
from kernel_rllib.replay.transitions import DISCOUNTS, Transitions

STEPS, LANES = 12, 3


def whole(seed: int = 0) -> Fragment:
    """Return steps whose observation is 100 * lane + t, with ends of both kinds; final observations are negative."""
    random = np.random.default_rng(seed)
    obs = (100 * np.arange(LANES)[None] + np.arange(STEPS)[:, None]).astype(np.float32)[..., None]
    terminateds = random.random((STEPS, LANES)) < 0.2
    truncateds = (random.random((STEPS, LANES)) < 0.2) & ~terminateds
    final_at = np.argwhere(terminateds | truncateds)
    return Fragment(
        columns={
            "obs": obs,
            "actions": random.integers(0, 5, (STEPS, LANES)),
            "rewards": random.random((STEPS, LANES), np.float32),
            "terminateds": terminateds,
            "truncateds": truncateds,
        },
        last_obs=obs[-1] + 1,
        final_at=final_at,
        final_obs=-obs[final_at[:, 0], final_at[:, 1]] - 1,
        lanes=np.arange(LANES),
    )


def piece(fragment: Fragment, start: int, end: int) -> Fragment:
    """Return the steps from `start` up to `end` as a runner would have returned them."""
    steps = fragment.steps_from(start)
    count = end - start
    inside = steps.final_at[:, 0] < count
    return Fragment(
        columns={name: column[:count] for name, column in steps.columns.items()},
        last_obs=fragment.columns["obs"][end] if end < STEPS else fragment.last_obs,
        final_at=steps.final_at[inside],
        final_obs=steps.final_obs[inside],
        lanes=steps.lanes,
    )


def expected(fragment: Fragment, n: int, gamma: float) -> list[tuple[float, float, float, float]]:
    """Return observation, return, next observation and discount of each complete transition, step by step."""
    ends = dict(zip(map(tuple, fragment.final_at.tolist()), fragment.final_obs[:, 0].tolist(), strict=True))
    found = []
    for t in range(STEPS - n + 1):
        for lane in range(LANES):
            total, discount, at = 0.0, 1.0, t
            while True:
                total += discount * float(fragment.columns["rewards"][at, lane])
                discount *= gamma
                if (at, lane) in ends or at == t + n - 1:
                    break
                at += 1
            follows = ends.get((at, lane), 100 * lane + at + 1)
            ended = fragment.columns["terminateds"][at, lane]
            found.append((100 * lane + t, total, follows, 0.0 if ended else discount))
    return found


def rows(batch: Batch) -> list[tuple[float, float, float, float]]:
    """Return what `expected` does, of a batch."""
    parts = (batch["obs"][:, 0], batch["rewards"], batch["new_obs"][:, 0], batch[DISCOUNTS])
    return [tuple(float(number) for number in row) for row in zip(*parts, strict=True)]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("cuts", [[12], [6, 12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [5, 6, 12]])
@pytest.mark.parametrize("seed", range(3))
def test_transitions_are_those_of_the_definition_however_steps_are_cut(n: int, cuts: list[int], seed: int) -> None:
    fragment = whole(seed)
    transitions = Transitions(n=n, gamma=0.9)
    batches = [transitions.of(piece(fragment, start, end)) for start, end in zip([0, *cuts], cuts, strict=False)]
    made = concatenated(batches)
    assert isinstance(made, Batch)
    np.testing.assert_allclose(sorted(rows(made)), sorted(expected(fragment, n, 0.9)), rtol=1e-6)


@pytest.mark.parametrize("cuts", [[12], [4, 8, 12]])
def test_of_bounds_one_number_of_steps_is_drawn_for_each_transition(cuts: list[int]) -> None:
    fragment = whole(1)
    transitions = Transitions(n=(2, 4), gamma=0.9, stream=np.random.default_rng(0))
    made = concatenated([
        transitions.of(piece(fragment, start, end)) for start, end in zip([0, *cuts], cuts, strict=False)
    ])  # fmt: skip
    assert isinstance(made, Batch)
    allowed = {n: expected(fragment, n, 0.9) for n in (2, 3, 4)}
    found: dict[int, int] = dict.fromkeys(allowed, 0)
    for row in rows(made):
        fits = [
            n for n, all_rows in allowed.items() if any(row == pytest.approx(other, rel=1e-5) for other in all_rows)
        ]
        assert fits
        found[fits[0]] += len(fits) == 1
    assert made.count == (STEPS - 3) * LANES
    assert all(found.values()), "each number is drawn for some"


def test_drawn_numbers_of_steps_go_on_elsewhere() -> None:
    fragment = whole(1)
    here = Transitions(n=(1, 4), gamma=0.9, stream=np.random.default_rng(0))
    here.of(piece(fragment, 0, 6))
    there = Transitions(n=(1, 4), gamma=0.9, stream=np.random.default_rng(9))
    there.set_state(here.state())
    made = [transitions.of(piece(fragment, 6, 12)) for transitions in (here, there)]
    assert rows(made[0]) == rows(made[1]) != []


def test_steps_that_were_not_made_are_left_out() -> None:
    fragment = whole()
    fragment.valid = np.ones((STEPS, LANES), bool)
    fragment.valid[4, 1] = False
    made = Transitions(n=1, gamma=0.9).of(fragment)
    assert made.count == STEPS * LANES - 1
    assert 104.0 not in made["obs"]


def test_only_fragments_of_the_same_lanes_follow_one_another() -> None:
    other = whole()
    other.lanes = np.array([1, 2, 3])
    with pytest.raises(DataError, match=r"different lanes can't follow one another: \[0, 1, 2\] and \[1, 2, 3\]"):
        followed_by(whole(), other)
