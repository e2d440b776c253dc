"""Replay of episodes: where fragments are cut, what is kept, and what is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import DataError
from kernel_rllib.replay.episodes import EpisodeReplay, Episodes, pieces_of


def fragment(ends: dict[tuple[int, int], bool], valid: Any = None) -> Fragment:
    """Return 6 steps of 2 lanes. What was observed is 10 x lane + step; 100 more at ends, after the last step 6.

    ends: the steps and lanes at which episodes ended, and whether they terminated or were cut.
    """
    steps = np.arange(6)[:, None] + 10 * np.arange(2)
    terminateds, truncateds = np.zeros((6, 2), bool), np.zeros((6, 2), bool)
    for place, is_over in ends.items():
        (terminateds if is_over else truncateds)[place] = True
    final = sorted(ends)
    return Fragment(
        columns={
            "obs": steps[..., None].astype(np.float32),
            "actions": steps[..., None],
            "rewards": steps.astype(np.float32),
            "terminateds": terminateds,
            "truncateds": truncateds,
        },
        last_obs=np.array([[6.0], [16.0]], np.float32),
        final_at=np.array(final, np.int64).reshape(-1, 2),
        final_obs=np.array([[100.0 + step + 10 * lane] for step, lane in final], np.float32).reshape(-1, 1),
        lanes=np.arange(2),
        valid=valid,
        state_in={"memory": steps[..., None].astype(np.float32)},
    )


def seen(pieces: Any) -> list[list[float]]:
    """Return what was observed in each piece."""
    return [piece.columns["obs"][:, 0].tolist() for piece in pieces]


def test_pieces_end_with_episodes_and_begin_with_what_was_remembered() -> None:
    pieces = list(pieces_of(fragment({(1, 0): True, (3, 0): False}), 99))
    assert seen(pieces) == [[0, 1, 101], [2, 3, 103], [4, 5, 6], [10, 11, 12, 13, 14, 15, 16]]
    assert [piece.columns["terminateds"].tolist() for piece in pieces[:2]] == [[False, True], [False, False]]
    assert [piece.state_in["memory"].tolist() for piece in pieces] == [[0], [2], [4], [10]]
    assert [piece.columns["rewards"].tolist() for piece in pieces] == [[0, 1], [2, 3], [4, 5], [10, 11, 12, 13, 14, 15]]


def test_pieces_are_no_longer_than_is_said() -> None:
    assert seen(pieces_of(fragment({(4, 1): True}), 2)) == [
        [0, 1, 2], [2, 3, 4], [4, 5, 6], [10, 11, 12], [12, 13, 14], [14, 114], [15, 16]
    ]  # fmt: skip


def test_steps_that_were_not_made_are_left_out() -> None:
    valid = np.ones((6, 2), bool)
    valid[2, 0] = valid[3:, 1] = False
    assert seen(pieces_of(fragment({}, valid), 99)) == [[0, 1, 2], [3, 4, 5, 6], [10, 11, 12, 16]]


def test_shorter_pieces_are_filled_up() -> None:
    episodes = Episodes(list(pieces_of(fragment({(3, 0): True}), 99)))
    assert episodes.obs[:, 1, 0].tolist() == [4, 5, 6, 0, 0, 0, 0]
    assert episodes.mask.sum(0).tolist() == [4, 2, 6]
    targets = np.arange(18.0).reshape(18, 1)
    batch = episodes.batch(targets)
    assert batch.count == 12
    assert batch["obs"].shape == (6, 3, 1)
    assert batch["value_targets"].shape == (18, 1)
    assert batch["actions"][:3, 0].tolist() == [0, 4, 10]
    assert batch["state_in"]["memory"].tolist() == [[0], [4], [10]]
    assert episodes.inputs()["obs"].shape == (7, 3, 1)
    assert not episodes.inputs()["resets"].any()


def test_the_oldest_go_where_there_are_too_many_steps() -> None:
    replay = EpisodeReplay(9)
    replay.add(list(pieces_of(fragment({}), 3)))
    assert len(replay) == 9
    assert seen(replay._pieces) == [[3, 4, 5, 6], [10, 11, 12, 13], [13, 14, 15, 16]]
    EpisodeReplay(1).add(list(pieces_of(fragment({}), 99)))  # one is kept, however long


def test_each_piece_is_drawn_with_the_same_chance_until_there_are_enough_steps() -> None:
    replay = EpisodeReplay(100)
    with pytest.raises(DataError, match="the replay buffer is empty"):
        replay.sample(1, np.random.default_rng(0))
    replay.add(list(pieces_of(fragment({(0, 0): True}), 99)))
    stream, counts = np.random.default_rng(0), np.zeros(16)
    for _ in range(600):
        drawn = replay.sample(10, stream)
        assert drawn.mask.sum() >= 10
        assert drawn.mask[:, :-1].sum() < 10
        np.add.at(counts, drawn.obs[0, :, 0].astype(int), 1)
    shares = counts[[0, 1, 10]] / counts.sum()
    np.testing.assert_allclose(shares, 1 / 3, atol=0.03)


def test_it_goes_on_with_its_state() -> None:
    replay, other, empty = EpisodeReplay(100), EpisodeReplay(100), EpisodeReplay(100)
    replay.add(list(pieces_of(fragment({(1, 0): True, (3, 0): False}), 4)))
    other.add(list(pieces_of(fragment({}), 4)))
    other.set_state(replay.state())
    assert len(other) == len(replay) == 12
    for one, same in zip(replay._pieces, other._pieces, strict=True):
        for name, column in one.columns.items():
            np.testing.assert_array_equal(same.columns[name], column)
        np.testing.assert_array_equal(same.state_in["memory"], one.state_in["memory"])
    replay.set_state(empty.state())
    assert len(replay) == 0
