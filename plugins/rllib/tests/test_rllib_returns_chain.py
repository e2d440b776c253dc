"""Three states one after the other, with values that are easy to work out by hand: what an end is worth.

s0 -> s1 -> s2 -> the end, with rewards 1, 2, 4 and a discount of a half: the true values are 3, 4, 4. The network says
10, 20, 30 instead, and 70 for the observation that a reset returns or that follows the end. All numbers are exact.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_rllib.returns import gae, lambda_returns, n_step, retrace, returns_to_go, vtrace

REWARDS = [1.0, 2.0, 4.0]
VALUES = [10.0, 20.0, 30.0]
OF_NO_ACCOUNT = 70.0
GAMMA = 0.5

FRAGMENTS = {
    # what happened: (rewards, values, next values, terminateds, truncateds, discounted returns)
    "terminated": (REWARDS, VALUES, [20.0, 30.0, OF_NO_ACCOUNT], [0, 0, 1], [0, 0, 0], [3.0, 4.0, 4.0]),
    "terminated and truncated at once": (
        REWARDS, VALUES, [20.0, 30.0, OF_NO_ACCOUNT], [0, 0, 1], [0, 0, 1], [3.0, 4.0, 4.0],
    ),
    "truncated": (REWARDS[:2], VALUES[:2], [20.0, 30.0], [0, 0], [0, 1], [9.5, 17.0]),
    "cut at the end of the fragment": (REWARDS[:2], VALUES[:2], [20.0, 30.0], [0, 0], [0, 0], [9.5, 17.0]),
    "truncated, then a new episode that is cut": (
        [1.0, 2.0, 1.0], [10.0, 20.0, 10.0], [20.0, 30.0, 20.0], [0, 0, 0], [0, 1, 0], [9.5, 17.0, 11.0],
    ),
    "terminated, then a new episode that is truncated": (
        [4.0, 1.0], [30.0, 10.0], [OF_NO_ACCOUNT, 20.0], [1, 0], [0, 1], [4.0, 11.0],
    ),
}  # fmt: skip

each = pytest.mark.parametrize("what", FRAGMENTS)


@each
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gae_targets_are_the_returns_that_the_ends_allow(what: str, dtype: type) -> None:
    rewards, values, next_values, terminateds, truncateds, expected = FRAGMENTS[what]
    floats = (np.array(array, dtype) for array in (rewards, values, next_values))
    advantages, targets = gae(*floats, terminateds, truncateds, gamma=GAMMA, lambda_=1.0)
    assert targets.dtype == advantages.dtype == dtype
    assert targets.tolist() == expected
    assert advantages.tolist() == [target - value for target, value in zip(expected, values, strict=True)]


@each
def test_one_step_targets_look_at_the_next_value_only(what: str) -> None:
    rewards, values, next_values, terminateds, truncateds, _ = FRAGMENTS[what]
    _, targets = gae(rewards, values, next_values, terminateds, truncateds, gamma=GAMMA, lambda_=0.0)
    alive = [not flag for flag in terminateds]
    expected = [r + GAMMA * v * go for r, v, go in zip(rewards, next_values, alive, strict=True)]
    assert targets.tolist() == expected
    assert lambda_returns(rewards, next_values, terminateds, truncateds, gamma=GAMMA, lambda_=0.0).tolist() == expected


@each
def test_all_returns_agree_where_nothing_is_corrected(what: str) -> None:
    rewards, values, next_values, terminateds, truncateds, expected = FRAGMENTS[what]
    ends = terminateds, truncateds
    same = np.zeros(len(rewards))
    assert lambda_returns(rewards, next_values, *ends, gamma=GAMMA, lambda_=1.0).tolist() == expected
    assert returns_to_go(rewards, *ends, gamma=GAMMA, next_values=next_values).tolist() == expected
    traced = vtrace(same, rewards, values, next_values, *ends, gamma=GAMMA)
    assert traced.value_targets.tolist() == expected
    assert traced.advantages.tolist() == [e - v for e, v in zip(expected, values, strict=True)]
    assert retrace(same, rewards, values, next_values, *ends, gamma=GAMMA).tolist() == expected
    steps = n_step(rewards, *ends, n=3, gamma=GAMMA)
    after = steps.at_last(np.array(next_values, np.float32))
    assert (steps.rewards + steps.discounts * after).tolist() == expected


def test_true_values_are_a_fixed_point_whatever_lambda() -> None:
    values, next_values = [3.0, 4.0, 4.0], [4.0, 4.0, OF_NO_ACCOUNT]
    for lambda_ in (0.0, 0.25, 0.95, 1.0):
        advantages, targets = gae(REWARDS, values, next_values, [0, 0, 1], [0, 0, 0], gamma=GAMMA, lambda_=lambda_)
        assert advantages.tolist() == [0.0, 0.0, 0.0] and targets.tolist() == values


def test_a_plain_sum_of_rewards_counts_nothing_after_the_rows() -> None:
    assert returns_to_go(REWARDS[:2], [0, 0], [0, 1], gamma=GAMMA).tolist() == [2.0, 2.0]
    assert returns_to_go(REWARDS, [0, 0, 1], [0, 0, 0], gamma=1.0).tolist() == [7.0, 6.0, 4.0]


def test_fragments_cut_anywhere_give_the_targets_of_one_that_is_not() -> None:
    """With true values a cut loses nothing: the first row's targets are the same, wherever the fragment ends."""
    for length in (1, 2, 3):
        values, next_values = [3.0, 4.0, 4.0], [4.0, 4.0, OF_NO_ACCOUNT]
        arrays = (array[:length] for array in (REWARDS, values, next_values, [0, 0, 1], [0, 0, 0]))
        assert gae(*arrays, gamma=GAMMA, lambda_=0.9)[1].tolist() == values[:length]


def test_two_steps_stop_at_an_end() -> None:
    """After s1 the episode was truncated; the next one begins in the same rows."""
    steps = n_step([1.0, 2.0, 1.0, 2.0], [0, 0, 0, 0], [0, 1, 0, 0], n=2, gamma=GAMMA)
    assert steps.rewards.tolist() == [2.0, 2.0, 2.0, 2.0]
    assert steps.steps.tolist() == [2, 1, 2, 1] and steps.last.tolist() == [1, 1, 3, 3]
    assert steps.discounts.tolist() == [0.25, 0.5, 0.25, 0.5]
    ended = n_step(REWARDS, [0, 0, 1], [0, 0, 0], n=2, gamma=GAMMA)
    assert ended.discounts.tolist() == [0.25, 0.0, 0.0] and ended.rewards.tolist() == [2.0, 4.0, 4.0]
