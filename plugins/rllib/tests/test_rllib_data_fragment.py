"""Fragments: lanes side by side, ends of episodes, and the same result however lanes are shared."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_rllib.data.fragment import Fragment, empty_ends, joined
from kernel_rllib.errors import DataError

STEPS = 4


def fragment(lanes: list[int], *, steps: int = STEPS, end: tuple[int, int] | None = None) -> Fragment:
    """Return steps whose observation is 10 * lane + t; `end` is a step and a lane whose episode is cut off there."""
    times = np.arange(steps, dtype=np.float32)[:, None]
    obs = 10 * np.array(lanes, np.float32)[None] + times
    truncateds = np.zeros((steps, len(lanes)), bool)
    final_at, final_obs = empty_ends((1,), np.float32)
    if end is not None and end[1] in lanes:
        position = lanes.index(end[1])
        truncateds[end[0], position] = True
        final_at, final_obs = np.array([(end[0], position)]), np.array([[-1.0]], np.float32)
    return Fragment(
        columns={"obs": obs[..., None], "rewards": np.ones((steps, len(lanes)), np.float32), "truncateds": truncateds},
        last_obs=(10 * np.array(lanes, np.float32) + steps)[:, None],
        final_at=final_at,
        final_obs=final_obs,
        lanes=np.array(lanes),
    )


def value_of(observations: np.ndarray) -> np.ndarray:
    """Return a value that shows which observation it is of."""
    return observations[:, 0] * 100


def test_the_next_value_is_that_of_the_next_observation() -> None:
    made = fragment([0, 1])
    after = made.next_values(value_of(made.columns["obs"].reshape(-1, 1)).reshape(STEPS, 2), value_of)
    assert after.tolist() == [[100, 1100], [200, 1200], [300, 1300], [400, 1400]]


def test_the_next_value_at_an_end_is_that_of_the_final_observation() -> None:
    made = fragment([0, 1], end=(2, 1))
    values = value_of(made.columns["obs"].reshape(-1, 1)).reshape(STEPS, 2)
    assert made.next_values(values, value_of)[:, 1].tolist() == [1100, 1200, -100, 1400]
    assert made.next_obs()[:, 1, 0].tolist() == [11, 12, -1, 14]
    assert made.next_obs()[:, 0, 0].tolist() == [1, 2, 3, 4]


def test_an_end_in_the_last_step_counts_more_than_what_follows_the_fragment() -> None:
    made = fragment([0], end=(STEPS - 1, 0))
    assert made.next_obs()[-1, 0, 0] == -1


@pytest.mark.parametrize("shares", [[[0, 1, 2, 3]], [[0, 1], [2, 3]], [[2, 3], [0], [1]], [[3], [1], [2], [0]]])
def test_joining_gives_the_same_however_the_lanes_were_shared(shares: list[list[int]]) -> None:
    whole = fragment([0, 1, 2, 3], end=(1, 2))
    made = joined([fragment(lanes, end=(1, 2)) for lanes in shares])
    assert made.lanes.tolist() == [0, 1, 2, 3]
    assert made.valid is None
    for name, column in whole.columns.items():
        np.testing.assert_array_equal(made.columns[name], column)
    np.testing.assert_array_equal(made.final_at, whole.final_at)
    np.testing.assert_array_equal(made.last_obs, whole.last_obs)


def test_ends_of_several_runners_are_ordered_by_step_and_lane() -> None:
    made = joined([fragment([0, 1], end=(3, 0)), fragment([2, 3], end=(1, 3))])
    assert made.final_at.tolist() == [[1, 3], [3, 0]]


def test_fragments_of_different_lengths_are_filled_up() -> None:
    made = joined([fragment([0], steps=2), fragment([1], steps=4)])
    assert made.steps == 6
    assert made.valid is not None
    assert made.valid.tolist() == [[True, True], [True, True], [False, True], [False, True]]
    batch = made.batch()
    assert batch["obs"][:, 0].tolist() == [0, 10, 1, 11, 12, 13]
    assert made.next_obs()[1, 0, 0] == 2


def test_a_full_fragment_is_seen_as_a_batch_without_a_copy() -> None:
    made = fragment([0, 1])
    batch = made.batch()
    assert batch.count == made.steps == 8
    assert np.shares_memory(batch["obs"], made.columns["obs"])
    assert batch["obs"][:3, 0].tolist() == [0, 10, 1]


def test_what_can_not_be_joined_is_refused() -> None:
    other = fragment([1])
    del other.columns["truncateds"]
    with pytest.raises(DataError, match=r"lanes \[0\] have \['obs', 'rewards', 'truncateds'\], lanes \[1\] have"):
        joined([fragment([0]), other])
    with pytest.raises(DataError, match="no fragments to join"):
        joined([])
