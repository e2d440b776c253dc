"""Structs: rows in and out, lanes joined, and values as environments know them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.action_rows import actions_of, row_width, rows_of
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.flatten import Flattener, flat_size, one_hot
from kernel_rllib.spaces.repeated import Repeated
from kernel_rllib.spaces.simplex import Simplex

NUMBERS = st.one_of(
    st.integers(1, 5).map(spaces.Discrete),
    st.tuples(st.integers(1, 5), st.integers(-3, 3)).map(lambda pair: spaces.Discrete(pair[0], start=pair[1])),
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(spaces.MultiDiscrete),
    st.integers(1, 3).map(spaces.MultiBinary),
    st.lists(st.integers(1, 3), max_size=3).map(lambda shape: spaces.Box(-2.0, 2.0, tuple(shape))),
    st.lists(st.integers(1, 3), min_size=1, max_size=3).map(lambda shape: spaces.Box(0, 255, tuple(shape), np.uint8)),
)
LEAVES = st.one_of(
    NUMBERS,
    st.integers(1, 3).map(lambda length: spaces.Text(length, charset="xyz")),
    st.integers(1, 4).map(lambda count: Simplex((count,))),
)


def trees(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf,
        lambda child: st.one_of(
            st.lists(child, min_size=1, max_size=3).map(spaces.Tuple),
            st.dictionaries(st.sampled_from("abc"), child, min_size=1, max_size=3).map(spaces.Dict),
        ),
        max_leaves=5,
    )


SPACES = st.one_of(
    trees(LEAVES),
    st.tuples(trees(NUMBERS), st.integers(1, 3)).map(lambda pair: Repeated(*pair)),
    st.lists(LEAVES, min_size=1, max_size=3).map(spaces.OneOf),
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other))


@settings(max_examples=150, deadline=None)
@given(SPACES, st.integers(0, 3))
def test_values_go_in_and_come_out_of_structs(space: spaces.Space[Any], seed: int) -> None:
    space.seed(seed)
    values = [space.sample() for _ in range(4)]
    struct = Encoder(space, "Maze").batch(values, "step")
    assert all(map(same, nested.unstack(space, struct), values))
    empty = nested.empty(space, 4)
    assert [(leaf.shape, leaf.dtype) for leaf in nested.leaves(empty)] == [
        (leaf.shape, leaf.dtype) for leaf in nested.leaves(struct)
    ]
    for lane in range(4):
        nested.write_row(empty, lane, nested.row(struct, lane))
    assert same(empty, struct)
    assert same(nested.concatenate([nested.rows(struct, slice(0, 1)), nested.rows(struct, [1, 2, 3])]), struct)


@settings(max_examples=150, deadline=None)
@given(SPACES, st.integers(0, 3))
def test_flat_rows_are_numbers_in_place_and_come_apart_again(space: spaces.Space[Any], seed: int) -> None:
    space.seed(seed)
    values = [space.sample() for _ in range(3)]
    struct = Encoder(space, "Maze").batch(values, "step")
    flattener = Flattener(space)
    rows = flattener.rows(struct)
    assert rows.shape == (3, flattener.size) == (3, flat_size(space)) and rows.dtype == np.float32
    assert flattener.space.contains(rows[0])
    into = np.full((3, flattener.size), np.nan, np.float32)
    np.testing.assert_array_equal(flattener.rows(struct, into), rows)
    twice = nested.mapped(lambda leaf: np.stack([leaf, leaf]), struct)
    np.testing.assert_array_equal(flattener.rows(twice), np.stack([rows, rows]))
    numbers = np.arange(rows.size, dtype=np.float32).reshape(rows.shape)
    parts = [part for part in nested.leaves(flattener.parts(numbers))]
    assert sorted(number for part in parts for number in part.ravel()) == list(range(rows.size))
    assert all(np.shares_memory(part, numbers) for part in parts if part.size)


def test_flat_rows_of_every_kind() -> None:
    space = spaces.Dict({
        "box": spaces.Box(-9, 9, (1, 2)), "index": spaces.Discrete(3, start=5), "many": spaces.MultiDiscrete([2, 3]),
        "text": spaces.Text(2, charset="ab"), "list": Repeated(spaces.Discrete(2), 2),
        "either": spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 9, (1,))]),
    })  # fmt: skip
    value = {"box": [[1.5, -2]], "index": 6, "many": [1, 2], "text": "b", "list": [1], "either": (1, [7])}
    rows = Flattener(space).rows(Encoder(space, "Maze").batch([value], "step"))
    expected = {
        "box": [1.5, -2], "either": [0, 1, 0, 0, 7], "index": [0, 1, 0], "list": [1, 0, 1, 0, 0],
        "many": [0, 1, 0, 0, 1], "text": [0, 1, 0, 0],
    }  # fmt: skip
    np.testing.assert_array_equal(rows[0], np.concatenate([expected[key] for key in space.spaces]))


def test_an_option_that_was_not_chosen_leaves_nothing_behind() -> None:
    space = spaces.OneOf([spaces.Box(0, 9, (1,)), spaces.Box(0, 9, (1,))])
    struct = (np.array([0]), np.array([[3.0]], np.float32), np.array([[8.0]], np.float32))
    np.testing.assert_array_equal(Flattener(space).rows(struct), [[1, 0, 3, 0]])


def test_a_flat_box_is_not_copied() -> None:
    struct = np.zeros((4, 2, 3), np.float32)
    assert Flattener(spaces.Box(-1, 1, (2, 3))).rows(struct).base is struct


def test_one_hot() -> None:
    np.testing.assert_array_equal(one_hot(np.array([[0], [2]]), 3), [[[1, 0, 0]], [[0, 0, 1]]])


@pytest.mark.parametrize("space", [spaces.Sequence(spaces.Discrete(2)), spaces.Graph(spaces.Discrete(2), None)])
def test_what_has_no_size_can_not_be_flat(space: spaces.Space[Any]) -> None:
    with pytest.raises(SpaceError, match="has no fixed size, so it can't be flattened: use Repeated"):
        Flattener(spaces.Tuple([spaces.Discrete(2), space]))


@settings(max_examples=150, deadline=None)
@given(trees(NUMBERS), st.integers(0, 3))
def test_actions_become_rows_and_actions_again(space: spaces.Space[Any], seed: int) -> None:
    space.seed(seed)
    values = [space.sample() for _ in range(3)]
    struct = Encoder(space, "Maze", "action", "action_space").batch(values, "act")
    rows = rows_of(space, struct)
    assert rows.size == 3 * row_width(space)
    again = actions_of(space, rows)
    assert same(again, struct)
    assert [leaf.dtype for leaf in nested.leaves(again)] == [leaf.dtype for leaf in nested.leaves(struct)]


def test_rows_of_actions_count_from_zero() -> None:
    assert rows_of(spaces.Discrete(3, start=-1), np.array([-1, 1])).tolist() == [0, 2]
    assert actions_of(spaces.Discrete(3, start=-1), np.array([0, 2])).tolist() == [-1, 1]
    both = spaces.Dict({"a": spaces.Discrete(3, start=4), "b": spaces.Box(-1, 1, (2,))})
    rows = np.array([[2, 0.5, -0.5]], np.float32)
    actions = actions_of(both, rows)
    assert actions["a"].tolist() == [6] and actions["b"].tolist() == [[0.5, -0.5]]
    assert actions["a"].dtype == np.int64
    np.testing.assert_array_equal(rows_of(both, actions), rows)


def test_what_no_distribution_draws_is_no_action_space() -> None:
    with pytest.raises(SpaceError, match="can't be an action space: use Discrete"):
        row_width(spaces.Tuple([spaces.Text(3)]))


def test_nan_is_found_wherever_it_is() -> None:
    clean = {"a": np.array([1.0, np.inf, -np.inf], np.float32), "b": (np.array([2**62]), np.array(["x"], object))}
    assert not nested.has_nan(clean)
    clean["a"][1] = np.nan
    assert nested.has_nan(clean) and nested.has_nan(np.array([[0.0, np.nan]]))


def test_what_has_no_form_has_a_place_for_objects() -> None:
    empty = nested.empty(spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), 3)
    assert empty["a"].shape == (3,) and empty["a"].dtype == object and nested.has_objects(empty)
    assert not nested.has_objects(nested.empty(spaces.Discrete(2), 3))


def test_a_row_is_a_copy() -> None:
    struct = {"a": np.zeros((2, 3))}
    row = nested.row(struct, 0)
    struct["a"][:] = 1
    assert not row["a"].any()


def test_spaces_of_lists_and_of_shares() -> None:
    lists = Repeated(spaces.Discrete(3), 2)
    lists.seed(4)
    assert all(lists.contains(lists.sample()) for _ in range(20))
    assert not lists.contains([0, 1, 2]) and not lists.contains([3]) and not lists.contains(0)
    assert lists == Repeated(spaces.Discrete(3), 2) != Repeated(spaces.Discrete(3), 3)
    assert lists.is_np_flattenable
    shares = Simplex((3,), concentration=np.array([1.0, 2.0, 3.0]))
    shares.seed(4)
    assert all(shares.contains(shares.sample()) for _ in range(20))
    assert not shares.contains(np.array([0.5, 0.5, 0.5], np.float32))
    assert shares != Simplex((3,)) and repr(shares).startswith("Simplex((3,)")
