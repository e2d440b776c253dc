"""Sequences: fragments in pieces, with what was remembered where each begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.fragment import Fragment, empty_ends
from kernel_rllib.data.sequences import sequences


def fragment(steps: int, lanes: int, first: int = 0, valid: Any = None) -> Fragment:
    """Return a fragment whose numbers say which step of which lane they are of."""
    number = np.arange(first, first + steps)[:, None] * 10.0 + np.arange(lanes)
    number = number.astype(np.float32)
    columns = {"obs": number[..., None], "rewards": number, "resets": number % 20 == 0}
    ends = empty_ends((1,), np.float32)
    return Fragment(
        columns, number[-1][:, None], *ends, np.arange(lanes), valid=valid, state_in={"m": number[..., None]}
    )


def test_pieces_begin_with_what_was_remembered_there() -> None:
    made = sequences([fragment(6, 2)], 3)
    assert (made.shape, made.count) == ((3, 4), 12)
    assert made.columns["obs"][..., 0].T.tolist() == [[0, 10, 20], [1, 11, 21], [30, 40, 50], [31, 41, 51]]
    assert made.state_in["m"][:, 0].tolist() == [0, 1, 30, 31]
    assert "loss_mask" not in made.columns


def test_the_last_piece_is_filled_up_and_what_fills_is_masked() -> None:
    made = sequences([fragment(5, 1)], 3)
    assert (made.shape, made.count) == ((3, 2), 5)
    assert made.columns["rewards"].T.tolist() == [[0, 10, 20], [30, 40, 0]]
    assert made.columns["loss_mask"].T.tolist() == [[1, 1, 1], [1, 1, 0]]


def test_rows_that_are_no_steps_are_masked_and_empty_pieces_left_out() -> None:
    valid = np.ones((4, 2), bool)
    valid[1:, 1] = False
    made = sequences([fragment(4, 2, valid=valid), fragment(4, 1, first=4)], 2)
    assert made.columns["rewards"].T.tolist() == [[0, 10], [1, 11], [20, 30], [40, 50], [60, 70]]
    assert made.columns["loss_mask"].T.tolist() == [[1, 1], [1, 0], [1, 1], [1, 1], [1, 1]]
    assert made.count == 9


def test_minibatches_are_whole_sequences_and_all_of_them_once() -> None:
    made = sequences([fragment(6, 4)], 3).only(["rewards"])
    batches = list(made.minibatches(7, np.random.default_rng(0), epochs=2))
    assert [batch.count for batch in batches] == [6] * 8
    first = batches[0]
    assert (first["obs"].shape, first["resets"].shape, first["rewards"].shape) == ((3, 2, 1), (3, 2), (6,))
    assert first["state_in"]["m"][:, 0].tolist() == first["obs"][0, :, 0].tolist()
    np.testing.assert_array_equal(first["rewards"].reshape(3, 2), first["obs"][..., 0])
    seen = np.concatenate([batch["rewards"] for batch in batches[:4]])
    assert sorted(seen.tolist()) == sorted(fragment(6, 4).columns["rewards"].ravel().tolist())
    assert [batch["rewards"].tolist() for batch in batches[:4]] != [batch["rewards"].tolist() for batch in batches[4:]]


@pytest.mark.parametrize("size", [1, 1000])
def test_a_minibatch_has_one_sequence_at_least_and_no_more_than_there_are(size: int) -> None:
    counts = [batch.count for batch in sequences([fragment(6, 2)], 3).minibatches(size, np.random.default_rng(0))]
    assert counts == ([3] * 4 if size == 1 else [12])


def test_sequences_are_no_longer_than_fragments() -> None:
    assert sequences([fragment(2, 2), fragment(3, 2)], 20).shape == (3, 4)
