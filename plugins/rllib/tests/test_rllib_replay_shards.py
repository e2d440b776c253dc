"""Replay in several processes: who keeps what, back-pressure, priorities that come back, and shards that die."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import CheckpointError, DataError, ReplayLostError
from kernel_rllib.replay.prioritized import PrioritizedReplay
from kernel_rllib.replay.replay import UniformReplay
from kernel_rllib.replay.shard import Experience, ReplayShard
from kernel_rllib.replay.shards import ReplayShards, ShardedReplay

import kernel

pytestmark = pytest.mark.usefixtures("session")
STREAM = np.random.default_rng(0)


class WaitingReplay(UniformReplay):
    """Keeps rows once a file is there."""

    def __init__(self, file: Path) -> None:
        super().__init__(100)
        self._file = file

    def add(self, batch: Batch, errors: Array | None = None) -> None:
        """Wait, and keep them."""
        while not self._file.exists():
            time.sleep(0.01)
        super().add(batch, errors)


def rows(*numbers: int) -> Batch:
    """Return rows that are told apart by a number."""
    return Batch({"number": np.array(numbers)})


@pytest.fixture
def shards() -> Any:
    """Two shards."""
    made = ReplayShards(2, 0)
    yield made
    made.close()


def filled(shards: ReplayShards, samples: int = 4) -> ShardedReplay:
    """Return the rows 0, 1, 2, ... of a policy, each sent as a sample of its own."""
    replay = shards.open("p", partial(PrioritizedReplay, 100))
    for number in range(samples):
        replay.add(rows(number))
    shards.wait()
    return replay


def drawn(replay: ShardedReplay, wanted: Collection[int] = (), until: Callable[[], bool] = lambda: True) -> set[int]:
    """Return the rows of 20 minibatches, and of more until the `wanted` ones have come and `until` is true.

    A minibatch is of the shard that has one ready first, which may be the same many times.
    """
    found: set[int] = set()
    minibatches = 0
    while minibatches < 20 or not found.issuperset(wanted) or not until():
        found.update(map(int, replay.sample(8, STREAM)["number"]))
        minibatches += 1
    return found


def test_samples_go_to_the_shards_in_turn_and_all_are_drawn_from(shards: ReplayShards) -> None:
    replay = filled(shards)
    assert len(replay) == 4
    assert [shard.rows for shard in shards._shards] == [{"p": 2}, {"p": 2}]
    assert drawn(replay, {0, 1, 2, 3}, lambda: shards._shards[1].draws > 5) == {0, 1, 2, 3}
    batches = [{*map(int, replay.sample(20, STREAM)["number"])} for _ in range(4)]
    assert all(batch in ({0, 2}, {1, 3}) for batch in batches), "each is of one shard: of which is not said"
    report = shards.results()
    assert report["replay_shard_0"]["rows"] == 2 and report["replay_shard_1"]["draws"] > 5
    assert report["num_replay_shard_restarts"] == report["num_replay_rows_lost"] == report["num_samples_dropped"] == 0


def test_priorities_go_back_to_the_shard_of_the_minibatch(shards: ReplayShards) -> None:
    replay = filled(shards, 8)
    latest: list[set[int]] = []  # what is drawn ahead may have the old priorities
    while len(latest) < 20 or set.union(*latest[-20:]) != {6, 7}:
        batch = replay.sample(8, STREAM)
        replay.update_priorities(batch["batch_indexes"], np.where(batch["number"] < 6, 1e-9, 1e3))
        latest.append({*map(int, batch["number"])})


def test_policies_have_rows_of_their_own(shards: ReplayShards) -> None:
    one, other = filled(shards, 2), shards.open("q", partial(UniformReplay, 10))
    other.add(rows(10))
    shards.wait()
    assert (len(one), len(other)) == (2, 1)
    assert (drawn(one, {0, 1}), drawn(other, {10})) == ({0, 1}, {10})


def test_what_nobody_has_sampled_can_not_be_drawn(shards: ReplayShards) -> None:
    with pytest.raises(DataError, match="the replay buffer is empty, so nothing can be drawn from it"):
        shards.open("p", partial(UniformReplay, 10)).sample(1, STREAM)


def test_rows_of_a_policy_that_was_not_opened_are_not_kept() -> None:
    shard = ReplayShard(STREAM)
    shard.open("p", partial(UniformReplay, 10))
    assert shard.add({"p": Experience(rows(1)), "q": Experience(rows(2))}) == {"p": 1}


def test_a_shard_that_is_behind_is_waited_for(tmp_path: Path) -> None:
    shards = ReplayShards(1, 0, most_adds=2)
    replay = shards.open("p", partial(WaitingReplay, tmp_path / "go"))
    sent = threading.Semaphore(0)

    def send() -> None:
        for number in range(3):
            replay.add(rows(number))
            sent.release()

    thread = threading.Thread(target=send)
    thread.start()
    assert sent.acquire(timeout=20) and sent.acquire(timeout=20)
    assert not sent.acquire(timeout=0.3), "a third sample is on its way to a shard that has not kept two"
    (tmp_path / "go").touch()
    assert sent.acquire(timeout=20)
    thread.join()
    shards.wait()
    assert len(replay) == 3
    shards.close()


def test_a_shard_that_dies_is_made_again_and_sent_what_was_on_its_way(
    shards: ReplayShards, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replay = shards.open("p", partial(WaitingReplay, tmp_path / "go"))
    for number in range(4):
        replay.add(rows(number))
    kernel.kill(shards.actors()[0])
    (tmp_path / "go").touch()
    with caplog.at_level(logging.WARNING):
        shards.wait()
    assert "replay shard 0, with 0 rows, died: ShardActor.add() failed" in caplog.text
    assert drawn(replay, {0, 1, 2, 3}) == {0, 1, 2, 3}
    kernel.kill(shards.actors()[0])
    drawn(replay, until=lambda: shards.restarts == 2)  # what it had drawn ahead
    lost = {0, 1, 2, 3} - drawn(replay)
    assert lost in ({0, 2}, {1, 3})
    report = shards.results()
    assert (report["num_replay_shard_restarts"], report["num_replay_rows_lost"], len(replay)) == (2, 2, 2)
    assert report["replay_shard_0"]["incarnation"] == 2
    for number in range(4, 8):
        replay.add(rows(number))
    shards.wait()
    assert drawn(replay, {*range(8)} - lost) == {*range(8)} - lost


def test_errors_of_a_minibatch_whose_shard_has_died_are_left_out(shards: ReplayShards) -> None:
    replay = filled(shards)
    batch = replay.sample(4, STREAM)
    for handle in shards.actors():
        kernel.kill(handle)
    replay.update_priorities(batch["batch_indexes"], np.ones(4))
    replay.add(rows(9))
    drawn(replay, until=lambda: shards.restarts == 2)  # what they had drawn ahead
    assert drawn(replay, {9}) == {9}


def test_the_others_go_on_without_it() -> None:
    shards = ReplayShards(2, 0, recovery="ignore")
    replay = filled(shards)
    kernel.kill(shards.actors()[0])
    drawn(replay, until=lambda: len(shards.actors()) == 1)
    assert len(drawn(replay)) == 2
    kernel.kill(shards.actors()[0])
    with pytest.raises(ReplayLostError, match=r"replay shard 1, with 2 rows, died: .* is dead: .*recovery='recreate'"):
        drawn(replay, until=lambda: False)
    shards.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"recovery": None}, r"replay shard 0, with 2 rows, died: .*`.fault_tolerance\(recovery='recreate'\)` another"),
        ({"tolerated_failures": 0}, r"1 replay shards died, the last 1 without an answer .* a smaller capacity in"),
        ({"most_restarts": 0}, r"1 replay shards died, .*max_num_env_runner_restarts=\.\.\.\)`\."),
    ],
)
def test_a_death_can_be_an_error(settings: dict[str, Any], said: str) -> None:
    shards = ReplayShards(2, 0, **settings)
    replay = filled(shards)
    kernel.kill(shards.actors()[0])
    with pytest.raises(ReplayLostError, match=said):
        drawn(replay, until=lambda: False)
    shards.close()


def test_all_of_it_goes_on_elsewhere(shards: ReplayShards) -> None:
    state = dict(filled(shards).state())
    other = ReplayShards(2, 1)
    replay = other.open("p", partial(PrioritizedReplay, 100))
    replay.set_state(state)
    assert len(replay) == 4 and drawn(replay, {0, 1, 2, 3}) == {0, 1, 2, 3}
    other.close()
    three = ReplayShards(3, 1)
    with pytest.raises(CheckpointError, match="the checkpoint has 2 shards of replay, and there are 3: build the algo"):
        three.open("p", partial(PrioritizedReplay, 100)).set_state(state)
    three.close()
