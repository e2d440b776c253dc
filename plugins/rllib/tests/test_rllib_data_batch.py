"""Batches: columns of equal length, their views, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from kernel_rllib.data.batch import Batch, MultiAgentBatch, concatenated
from kernel_rllib.errors import DataError


def batch(rows: int = 6) -> Batch:
    """Return rows of three episodes, where there are six: of two, one and three steps."""
    ids = np.array([7, 7, 3, 9, 9, 9])[:rows]
    return Batch(obs=np.arange(rows * 2, dtype=np.float32).reshape(rows, 2), rewards=np.arange(rows), eps_id=ids)


def test_columns_are_arrays_with_one_entry_a_step() -> None:
    made = Batch({"obs": [[1.0], [2.0]]}, rewards=[1, 2])
    assert made.count == made.env_steps() == made.agent_steps() == 2
    assert isinstance(made["rewards"], np.ndarray)
    assert Batch().count == 0


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"different numbers of rows: \{'obs': 2, 'rewards': 3\}"):
        Batch(obs=[1, 2], rewards=[1, 2, 3])
    with pytest.raises(DataError, match="the column 'rewards' has 3 rows, but the batch has 2"):
        Batch(obs=[1, 2])["rewards"] = [1, 2, 3]
    with pytest.raises(DataError, match="None"):
        Batch(obs=[1, 2], reward=3.0)


def test_the_only_column_may_change_its_length() -> None:
    made = Batch(obs=[1, 2])
    made["obs"] = [1, 2, 3]
    assert made.count == 3


def test_slices_are_views() -> None:
    made = batch()
    part = made.slice(1, 3)
    assert part.count == made[1:3].count == 2
    assert np.shares_memory(part["obs"], made["obs"]) and np.shares_memory(made[1:3]["obs"], made["obs"])
    assert not np.shares_memory(made.copy()["obs"], made["obs"])
    assert np.shares_memory(made.copy(shallow=True)["obs"], made["obs"])


def test_episodes_are_told_apart_by_their_ids() -> None:
    assert [part["rewards"].tolist() for part in batch().split_by_episode()] == [[0, 1], [2], [3, 4, 5]]


@pytest.mark.parametrize("names", [("dones",), ("terminateds", "truncateds")])
def test_episodes_are_told_apart_by_the_flags_of_their_ends(names: tuple[str, ...]) -> None:
    flags = [[False, True, False, False], [False, False, True, False]]
    columns = {name: flags[place] for place, name in enumerate(names)}
    lengths = [part.count for part in Batch(rewards=range(4), **columns).split_by_episode()]
    assert lengths == ([2, 2] if len(names) == 1 else [2, 1, 1])


def test_an_end_in_the_last_row_makes_no_empty_episode() -> None:
    assert [part.count for part in Batch(rewards=[1, 2], dones=[False, True]).split_by_episode()] == [2]


def test_a_batch_that_tells_no_episodes_apart_says_what_it_lacks() -> None:
    with pytest.raises(DataError, match=r"neither 'eps_id' nor flags of their ends, only \['rewards'\]"):
        Batch(rewards=[1, 2]).split_by_episode()


def test_minibatches_hold_each_row_once_an_epoch() -> None:
    made = Batch(rewards=np.arange(10))
    parts = list(made.minibatches(5, np.random.default_rng(0), epochs=2))
    assert [part.count for part in parts] == [5, 5, 5, 5]
    for epoch in (parts[:2], parts[2:]):
        assert sorted(np.concatenate([part["rewards"] for part in epoch])) == list(range(10))
    orders = [np.concatenate([part["rewards"] for part in epoch]).tolist() for epoch in (parts[:2], parts[2:])]
    assert orders[0] != orders[1]
    again = [part["rewards"].tolist() for part in made.minibatches(5, np.random.default_rng(0), epochs=2)]
    assert again == [part["rewards"].tolist() for part in parts]


def test_rows_that_fill_no_minibatch_are_left_out_unless_they_are_all() -> None:
    made = Batch(rewards=np.arange(7))
    assert [part.count for part in made.minibatches(3, np.random.default_rng(0))] == [3, 3]
    assert [part.count for part in made.minibatches(100, np.random.default_rng(0))] == [7]


def test_shuffling_keeps_rows_together() -> None:
    made = batch().shuffle(np.random.default_rng(1))
    assert made["rewards"].tolist() != list(range(6))
    assert (made["obs"][:, 0] == made["rewards"] * 2).all()


def test_batches_are_joined_in_order() -> None:
    joined = concatenated([batch(2), Batch(), batch(3)])
    assert isinstance(joined, Batch)
    assert joined["rewards"].tolist() == [0, 1, 0, 1, 2]
    assert batch(2).concat(batch(1)).count == 3


def test_batches_with_other_columns_are_not_joined() -> None:
    with pytest.raises(DataError, match=r"one has \['rewards'\], another \['obs', 'rewards'\]"):
        concatenated([Batch(rewards=[1]), Batch(rewards=[1], obs=[1])])


def test_batches_of_many_policies_count_both_kinds_of_steps() -> None:
    many = MultiAgentBatch({"a": batch(2), "b": batch(3)}, env_steps=3)
    assert (many.env_steps(), many.agent_steps(), len(many)) == (3, 5, 3)
    joined = concatenated([many, batch(2)])
    assert isinstance(joined, MultiAgentBatch)
    assert {key: part.count for key, part in joined.policy_batches.items()} == {"a": 2, "b": 3, "default_policy": 2}
    assert joined.env_steps() == 5


def test_only_the_default_policy_needs_no_wrapping() -> None:
    assert isinstance(MultiAgentBatch.wrap_as_needed({"default_policy": batch(1)}, 1), Batch)
    assert isinstance(MultiAgentBatch.wrap_as_needed({"other": batch(1)}, 1), MultiAgentBatch)


def test_rows_columns_and_pieces() -> None:
    made = batch(3)
    assert [row["rewards"] for row in made.rows()] == [0, 1, 2]
    assert [column.tolist() for column in made.columns(["rewards", "eps_id"])] == [[0, 1, 2], [7, 7, 3]]
    assert [part.count for part in made.timeslices(2)] == [2, 1]
    assert made.take(np.array([2, 0]))["rewards"].tolist() == [2, 0]


def test_batches_are_pickled_and_shown() -> None:
    made = pickle.loads(pickle.dumps(batch(2)))
    assert isinstance(made, Batch) and made["eps_id"].tolist() == [7, 7]
    assert repr(made) == "Batch(2 rows; obs: float32[2, 2], rewards: int64[2], eps_id: int64[2])"
