"""What an environment may return for a space, and the words in which it hears what it may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces.bounds import outside
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.nested import leaves
from kernel_rllib.spaces.repeated import Repeated
from kernel_rllib.spaces.simplex import Simplex

PAIR = spaces.Dict({"where": spaces.Box(-1, 1, (2,)), "gear": spaces.Discrete(3)})


def encoder(space: spaces.Space[Any]) -> Encoder:
    return Encoder(space, "Maze")


@pytest.mark.parametrize(
    ("space", "values", "expected", "dtype"),
    [
        (spaces.Box(0, 9, (1,)), [[3], [4]], [[3], [4]], np.float32),
        (spaces.Box(0, 9, (1,)), [3, np.int64(4)], [[3], [4]], np.float32),
        (spaces.Box(0, 9, (2,)), [(1, 2), np.array([3.0, 4.0])], [[1, 2], [3, 4]], np.float32),
        (spaces.Box(0, 9, ()), [np.array([2.5]), 1], [2.5, 1], np.float32),
        (spaces.Box(0, 9, (1,)), [True, np.float32(0.5)], [[1], [0.5]], np.float32),
        (spaces.Box(0, 9, (2,), np.float64), [[1, 2]], [[1, 2]], np.float64),
        (spaces.Box(0, 255, (2,), np.uint8), [[0, 255], np.array([1.0, 2.0])], [[0, 255], [1, 2]], np.uint8),
        (spaces.Box(-5, 5, (1,), np.int32), [np.array([-5], np.int64)], [[-5]], np.int32),
        (spaces.Discrete(3, start=4), [4, np.int32(6), np.array([5]), 6.0, np.array(4)], [4, 6, 5, 6, 4], np.int64),
        (spaces.Discrete(2), [True, np.bool_(False)], [1, 0], np.int64),
        (spaces.MultiDiscrete([2, 3]), [[1, 2], (0, 0)], [[1, 2], [0, 0]], np.int64),
        (spaces.MultiBinary(3), [[True, False, 1]], [[1, 0, 1]], np.int8),
        (Simplex((2,)), [[0.25, 0.75]], [[0.25, 0.75]], np.float32),
    ],
)
def test_what_means_the_same_is_converted(
    space: spaces.Space[Any], values: list[Any], expected: list[Any], dtype: type
) -> None:
    struct = encoder(space).batch(values, "step")
    assert struct.dtype == dtype
    np.testing.assert_array_equal(struct, np.array(expected, dtype))
    for lane, value in enumerate(values):
        np.testing.assert_array_equal(encoder(space).one(value, "step"), struct[lane])


def test_what_is_returned_later_does_not_change_a_row() -> None:
    seen = np.zeros(2, np.float32)
    row = encoder(spaces.Box(-1, 1, (2,))).one(seen, "step")
    batch = encoder(spaces.Box(-1, 1, (2,))).batch([seen], "step")
    seen += 1
    assert not row.any() and not batch.any()


def test_nested_values_become_arrays_of_lanes() -> None:
    space = spaces.Tuple([PAIR, spaces.Text(4, charset="ab")])
    struct = encoder(space).batch([({"where": [0, 1], "gear": 2}, "ab"), ({"gear": 0, "where": (1, 0)}, "b")], "step")
    np.testing.assert_array_equal(struct[0]["where"], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(struct[0]["gear"], [2, 0])
    np.testing.assert_array_equal(struct[1], [[0, 1, 2, 2], [1, 2, 2, 2]])


def test_lists_are_padded_and_options_are_apart() -> None:
    struct = encoder(Repeated(spaces.Discrete(5), 3)).batch([[4, 1], []], "step")
    np.testing.assert_array_equal(struct["lengths"], [2, 0])
    np.testing.assert_array_equal(struct["values"], [[4, 1, 0], [0, 0, 0]])
    struct = encoder(spaces.OneOf([spaces.Discrete(5), spaces.Box(0, 1, (2,))])).batch([(0, 3), (1, [0.5, 1])], "step")
    assert [leaf.tolist() for leaf in leaves(struct)] == [[0, 1], [3, 0], [[0, 0], [0.5, 1]]]


def test_what_has_no_form_stays_an_object() -> None:
    struct = encoder(spaces.Sequence(spaces.Discrete(3))).batch([(1, 2), ()], "step")
    assert struct.dtype == object and struct[0] == (1, 2) and struct[1] == ()


@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (spaces.Box(0, 1, (4,)), np.zeros(3), "an array of shape (3,) and dtype float64 as observation"),
        (spaces.Box(0, 1, (4,)), np.zeros((4, 1)), "return an array of shape (4,) that fits float32"),
        (spaces.Box(0, 1, (4,)), [[0, 1], [1]], "a list of 2"),
        (spaces.Box(0, 1, (4,)), None, "returned None as observation"),
        (spaces.Box(0, 1, (4,)), "left", "'left' (str)"),
        (spaces.Box(0, 1, (4,)), (np.zeros(4), {}), "a tuple of 2"),
        (spaces.Box(0, 1, (1,)), 1j, "1j (complex)"),
        (spaces.Box(0, 1, (1,)), [], "an empty list"),
        (spaces.Box(0, 255, (2,), np.uint8), [1, 256], "values that uint8 can't hold, such as 256,"),
        (spaces.Box(0, 255, (2,), np.uint8), [0.5, 0], "such as 0.5,"),
        (spaces.Box(0, 9, (1,), np.int32), [np.nan], "such as nan,"),
        (spaces.Discrete(3), 3, "returned 3 as observation of lane 0, but observation_space is Discrete(3)"),
        (spaces.Discrete(3, start=1), 0, "return a whole number from 1 to 3"),
        (spaces.Discrete(3), 1.5, "1.5, which is no whole number,"),
        (spaces.Discrete(3), "1", "'1' (str)"),
        (spaces.Discrete(3), [1, 2], "a list of shape (2,)"),
        (spaces.MultiDiscrete([2, 3]), [1, 3], "the number 3"),
        (spaces.MultiBinary(2), [0, 2], "the number 2"),
        (spaces.Text(2, charset="ab"), "abc", "return a string of that length, of its characters"),
        (spaces.Text(2), 5, "return a string"),
        (PAIR, {"gear": 1}, "a dict without ['where']"),
        (PAIR, {"gear": 1, "where": [0, 0], "speed": 1}, "a dict with unknown keys ['speed']"),
        (PAIR, [0, 0], "return a dict with the keys ['gear', 'where']"),
        (
            PAIR,
            {"gear": 7, "where": [0, 0]},
            "7 as observation['gear'] of lane 0, but observation_space['gear']",
        ),
        (spaces.Tuple([PAIR]), ({"gear": 0, "where": [0]},), "observation[0]['where']"),
        (spaces.Tuple([PAIR]), (), "return a tuple of 1 values"),
        (spaces.OneOf([PAIR]), (1, 0), "return (index of the option, value)"),
        (Repeated(spaces.Discrete(2), 1), [0, 1], "a list of at most 1 values"),
        (Repeated(spaces.Discrete(2), 3), [0, 5], "observation[1]"),
        (spaces.Sequence(spaces.Discrete(2)), (7,), "return a value that the space contains"),
    ],
)
def test_what_is_not_of_the_space_is_named(space: spaces.Space[Any], value: Any, words: str) -> None:
    with pytest.raises(SpaceError) as caught:
        encoder(space).batch([value], "step")
    said = str(caught.value)
    assert said.startswith("Maze.step() returned ") and words in said
    assert (
        "returned ~" not in said
        and "(returned: " in said
        and str(space if isinstance(space, spaces.Box) else "") in said
    )


def test_the_lane_of_a_wrong_value_is_named() -> None:
    with pytest.raises(SpaceError, match=r"^Maze.step\(\) returned None as observation of lane 2, but"):
        encoder(spaces.Box(0, 1, (1,))).batch([[0], [1], None], "step")
    with pytest.raises(SpaceError, match=r"^Maze.reset\(\) returned None as observation, but"):
        encoder(spaces.Box(0, 1, (1,))).one(None, "reset")


@pytest.mark.parametrize(
    ("space", "row", "words"),
    [
        (spaces.Box(-1, 1, (2,)), [0.5, 1.5], "element [1] is 1.5, above 1.0"),
        (spaces.Box(-1, 1, (2, 2)), [[0, 0], [-2, 0]], "element [1, 0] is -2.0, below -1.0"),
        (spaces.Box(-1, 1, ()), 7, "it is 7.0, above 1.0"),
        (spaces.Box(-np.inf, 1, (1,)), [np.nan], "element [0] is nan, which is no number"),
        (Simplex((2,)), [0.25, 0.25], "the shares add up to 0.5, and not to 1"),
        (spaces.Box(-np.inf, np.inf, (1,)), [1e30], ""),
        (spaces.Discrete(2), 1, ""),
    ],
)
def test_what_is_beyond_the_bounds_is_named(space: spaces.Space[Any], row: Any, words: str) -> None:
    said = outside(space, np.array(row, np.float32))
    assert said.startswith(words) and bool(said) == bool(words)


def test_beyond_bounds_within_a_nested_value() -> None:
    row = {"where": np.array([0, 2], np.float32), "gear": np.array(1)}
    assert outside(spaces.Tuple([PAIR]), (row,)) == "element [0]['where'][1] is 2.0, above 1.0"
