"""Actions between the bounds of environments and those that networks learn in."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.spaces.squash import ActionScaler

INF = np.inf
MIXED = spaces.Box(np.array([-2, 0, -INF, -INF], np.float32), np.array([4, INF, 1, INF], np.float32))


def test_bounded_elements_are_scaled_and_others_are_not() -> None:
    scaler = ActionScaler(MIXED)
    actions = scaler.unsquash(np.array([[-1, -1, -1, -1], [1, 1, 1, 1], [0, 3, 3, 3]], np.float32))
    np.testing.assert_allclose(actions, [[-2, 0, -1, -1], [4, 1, 1, 1], [1, 3, 1, 3]])
    assert actions.dtype == np.float32


def test_what_is_beyond_is_clipped() -> None:
    scaler = ActionScaler(MIXED)
    np.testing.assert_allclose(scaler.unsquash(np.array([[5.0, -5, 5, 5]])), [[4, 0, 1, 5]])
    np.testing.assert_allclose(scaler.clip(np.array([[-9.0, -5, 5, 5]])), [[-2, 0, 1, 5]])


def test_normalising_is_the_inverse() -> None:
    scaler = ActionScaler(MIXED)
    learnt = np.array([[-0.5, 0.5, 0.25, 7], [1, 2, -3, -7]], np.float32)
    again = scaler.normalise(scaler.unsquash(learnt))
    np.testing.assert_allclose(again, learnt, atol=1e-6)
    assert again.dtype == np.float32


def test_wide_and_empty_ranges() -> None:
    wide = spaces.Box(np.float32(-3e38), np.float32(3e38), (1,), np.float32)
    np.testing.assert_allclose(ActionScaler(wide).unsquash(np.array([[1.0], [0.5]])), [[3e38], [1.5e38]], rtol=1e-6)
    point = ActionScaler(spaces.Box(2.0, 2.0, (1,)))
    assert point.unsquash(np.array([[0.3]])).tolist() == [[2.0]] and point.normalise(np.array([[2.0]])).tolist() == [
        [0]
    ]


def test_whole_numbers_are_the_nearest() -> None:
    scaler = ActionScaler(spaces.Box(0, 10, (1,), np.int32))
    actions = scaler.unsquash(np.array([[-1.0], [0.09], [1.0], [9.0]]))
    assert actions.dtype == np.int32 and actions.tolist() == [[0], [5], [10], [10]]


@pytest.mark.parametrize("operation", ["unsquash", "normalise", "clip"])
def test_nested_actions_keep_what_is_no_box(operation: str) -> None:
    space = spaces.Dict({"push": spaces.Box(0, 4, (1,)), "rest": spaces.Tuple([spaces.Discrete(3)])})
    struct = {"push": np.array([[2.0]], np.float32), "rest": (np.array([2]),)}
    scaled = getattr(ActionScaler(space), operation)(struct)
    assert scaled["rest"][0].tolist() == [2]
    assert scaled["push"].tolist() == {"unsquash": [[4]], "normalise": [[0]], "clip": [[2]]}[operation]
