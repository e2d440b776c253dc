"""Policy optimizers that replay what was sampled, those that add gradients up, and those whose workers never wait."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import ConfigError, RLlibError
from kernel_rllib.first_generation.async_replay_optimizer import AsyncReplayOptimizer
from kernel_rllib.first_generation.async_samples_optimizer import AsyncSamplesOptimizer
from kernel_rllib.first_generation.local_replay_buffer import LocalReplayBuffer
from kernel_rllib.first_generation.micro_batches import MicrobatchOptimizer, added
from kernel_rllib.first_generation.policy_optimizers import LocalMultiGPUOptimizer
from kernel_rllib.first_generation.replay_optimizers import SyncBatchReplayOptimizer, SyncReplayOptimizer
from kernel_rllib.first_generation.rollout_worker import WorkerSet
from kernel_rllib.testing.summing_policy import SummingPolicy, workers_of

import kernel


class Erring(SummingPolicy):
    """Its error is the number of the step in the episode."""

    def learn_on_batch(self, samples: Any) -> Any:
        return {**super().learn_on_batch(samples), "td_error": samples["t"].astype(np.float64)}


def erring(number: int) -> WorkerSet:
    return workers_of(number, Erring)


def rows_learned(worker: Any) -> float:
    found: float = worker.get_policy().learned
    return found


def learned_by(workers: WorkerSet) -> list[Any]:
    found: list[Any] = workers.local_worker().get_policy().batches
    return found


@pytest.fixture
def two(session: None) -> Iterator[WorkerSet]:
    """Two workers in actors."""
    found = erring(2)
    made = found.remote_workers()
    yield found
    found.reset(made)
    found.stop()


def test_rows_are_learned_from_once_there_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(LocalReplayBuffer, "update_priorities", lambda buffer, errors: told.append(errors))
    optimizer = SyncReplayOptimizer(erring(0), learning_starts=25, buffer_size=30, train_batch_size=8)
    assert [optimizer.step(), optimizer.step()] == [{}, {}]
    for _ in range(5):
        optimizer.step()
    assert optimizer.num_steps_sampled == 70 and optimizer.num_steps_trained == 5 * 8
    assert optimizer.stats()["replay"] == {"added_count": 70, "num_entries": {"default_policy": 30}}
    batches = learned_by(optimizer.workers)
    assert [batch.count for batch in batches] == [8] * 5 and {"weights", "batch_indexes"} <= batches[0].keys()
    for batch, errors in zip(batches, told, strict=True):
        indexes, found = errors["default_policy"]
        assert (indexes == batch["batch_indexes"]).all() and (found == batch["t"]).all()


def test_rows_with_large_errors_are_drawn_more_often() -> None:
    buffer = LocalReplayBuffer(learning_starts=0, replay_batch_size=100, prioritized_replay_alpha=1.0)
    buffer.add_batch(Batch({"t": np.arange(4)}))
    buffer.update_priorities({"default_policy": (np.arange(4), np.array([0.0, -3.0, 1.0, 0.0]))})
    drawn = buffer.replay()
    assert drawn is not None and np.bincount(drawn["default_policy"]["t"]).tolist() == pytest.approx([0, 75, 25], abs=1)


def test_what_is_drawn_may_be_changed_before_it_is_learned_from() -> None:
    seen: list[Any] = []

    def halved(batch: Any, policies: Any, size: int) -> Any:
        seen.append((sorted(policies), size))
        return MultiAgentBatch({name: rows.slice(0, 2) for name, rows in batch.policy_batches.items()}, 2)

    optimizer = SyncReplayOptimizer(
        erring(0), learning_starts=0, prioritized_replay=False, before_learn_on_batch=halved, train_batch_size=4
    )
    assert optimizer.step()["default_policy"]["rows"] == 2
    assert seen == [(["default_policy"], 4)] and optimizer.num_steps_trained == 2


def test_beta_goes_by_the_steps_that_were_learned_from() -> None:
    optimizer = SyncReplayOptimizer(
        erring(0), learning_starts=0, train_batch_size=16, prioritized_replay_beta=0.0,
        final_prioritized_replay_beta=1.0, prioritized_replay_beta_annealing_timesteps=32,
    )  # fmt: skip
    for _ in range(4):
        optimizer.step()
    weights = [batch["weights"] for batch in learned_by(optimizer.workers)]
    assert (weights[0] == 1).all() and (weights[3] < 0.9).any()


def test_whole_batches_are_replayed_as_they_were() -> None:
    optimizer = SyncBatchReplayOptimizer(workers_of(0), learning_starts=20, buffer_size=30, train_batch_size=15)
    assert optimizer.step() == {}
    for _ in range(10):
        assert optimizer.step() == {"default_policy": {"rows": 20}}
    assert optimizer.num_steps_trained == 200 and optimizer.stats()["replay"]["num_entries"] == 30
    for batch in learned_by(optimizer.workers):
        for part in batch.slice(0, 10), batch.slice(10, 20):
            assert (np.diff(part["eps_id"]) >= 0).all() and part["t"][0] == 0


def test_gradients_of_small_batches_are_applied_together() -> None:
    optimizer = MicrobatchOptimizer(workers_of(0), train_batch_size=50, microbatch_size=20)
    assert optimizer.step() == {"default_policy": {"seen": 0}}
    assert optimizer.workers.local_worker().get_policy().learned == 60
    assert optimizer.stats()["num_steps_trained"] == 60
    assert optimizer.step() == {"default_policy": {"seen": 60}}


def test_gradients_of_every_form_are_added() -> None:
    one, other = {"a": [np.ones(2), None], "b": 1.0}, {"a": [np.ones(2), np.ones(1)], "b": 2.0}
    found = added(one, other)
    assert found["b"] == 3.0 and [each.tolist() for each in found["a"]] == [[2.0, 2.0], [1.0]]


def test_minibatches_are_in_order_where_they_are_not_to_be_shuffled() -> None:
    optimizer = LocalMultiGPUOptimizer(
        workers_of(0), sgd_batch_size=5, num_sgd_iter=2, train_batch_size=10, shuffle_sequences=False
    )
    optimizer.step()
    first, second = learned_by(optimizer.workers)[:2]
    assert first["t"][0] == 0 and (np.diff(first["t"]) == 1).all() and second["t"][0] in (0, 5)


def test_samples_of_workers_that_never_wait_are_learned_from(two: WorkerSet) -> None:
    optimizer = AsyncSamplesOptimizer(
        two, train_batch_size=30, replay_buffer_num_slots=4, replay_proportion=1.0, num_sgd_iter=2
    )
    for _ in range(4):
        assert optimizer.step()["default_policy"]["rows"] >= 30
    new, again = optimizer.num_steps_sampled, optimizer.num_steps_replayed
    assert again == new - 10 and optimizer.num_steps_trained == 2 * (new + again)
    behind = list(two.remote_workers())  # A worker is given weights when it brings a sample, whichever is the quicker.
    for _ in range(1000):
        optimizer.step()
        behind = [worker for worker in behind if not kernel.get(worker.apply.remote(rows_learned))]
        if not behind:
            break
    assert not behind and optimizer.stats()["num_weight_syncs"] > 2
    optimizer.stop()


def test_batches_that_are_kept_are_learned_from_in_turn(two: WorkerSet) -> None:
    optimizer = AsyncSamplesOptimizer(two, train_batch_size=10, num_sgd_iter=2, minibatch_buffer_size=3)
    assert [optimizer.step() for _ in range(2)] == [{}, {}]
    for _ in range(6):
        optimizer.step()
    seen = [id(batch["obs"]) for batch in learned_by(two)]
    assert len(seen) == 12 and [seen.count(each) for each in dict.fromkeys(seen)][:4] == [2] * 4
    assert all(one != other for one, other in itertools.pairwise(seen[:4])), "not one batch twice in a row"
    optimizer.stop()


def test_replay_actors_keep_what_workers_sample(two: WorkerSet) -> None:
    optimizer = AsyncReplayOptimizer(
        two, learning_starts=40, train_batch_size=6, num_replay_buffer_shards=2, max_weight_sync_delay=20, debug=True
    )
    assert [optimizer.step() for _ in range(2)] == [{}, {}]
    for _ in range(8):
        optimizer.step()
    stats = optimizer.stats()
    assert stats["num_steps_sampled"] == 100 and stats["num_steps_trained"] == 6 * (8 + 7)
    assert [stats[f"replay_shard_{index}"]["added_count"] for index in range(2)] == [50, 50]
    assert stats["num_weight_syncs"] > 2 and stats["learner"]["default_policy"]["rows"] == 6
    optimizer.stop()
    with pytest.raises(ConfigError, match="this AsyncReplayOptimizer was stopped"):
        optimizer.step()


def test_replay_actors_keep_whole_batches(two: WorkerSet) -> None:
    optimizer = AsyncReplayOptimizer(
        two, learning_starts=0, train_batch_size=20, prioritized_replay=False, batch_replay=True
    )
    assert optimizer.step()["default_policy"]["rows"] == 20
    optimizer.stop()


def test_rows_of_all_policies_are_of_the_same_moments_if_asked_for() -> None:
    buffer = LocalReplayBuffer(learning_starts=0, replay_batch_size=5, prioritized_replay=False)
    rows = {name: Batch({"t": np.arange(10) + start}) for name, start in (("left", 0), ("right", 100))}
    assert buffer.add_batch(MultiAgentBatch(rows, 10)) == 10
    drawn = buffer.replay(synchronize=True)
    assert drawn is not None
    assert (drawn["left"]["t"] + 100 == drawn["right"]["t"]).all()


def test_first_priorities_are_those_that_rows_bring() -> None:
    buffer = LocalReplayBuffer(learning_starts=0, replay_batch_size=20, prioritized_replay_alpha=1.0)
    buffer.add_batch(Batch({"t": np.arange(4), "weights": np.array([0.0, 0.0, 5.0, 0.0])}))
    drawn = buffer.replay()
    assert drawn is not None and set(drawn["default_policy"]["t"]) == {2}


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (SyncReplayOptimizer, {"buffer_size": 10}, "buffer_size=10 rows is less than train_batch_size=32"),
    (MicrobatchOptimizer, {"train_batch_size": 10}, "microbatch_size=1000 must be above 0, and at most"),
    (LocalMultiGPUOptimizer, {"num_gpus": 1}, "num_gpus=1, but a LocalMultiGPUOptimizer learns where"),
    (AsyncSamplesOptimizer, {}, "AsyncSamplesOptimizer has no workers elsewhere"),
    (AsyncReplayOptimizer, {}, "AsyncReplayOptimizer has no workers elsewhere"),
]


@pytest.mark.parametrize(("kind", "given", "said"), REFUSED)
def test_what_an_optimizer_can_not_do_is_refused(kind: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        kind(workers_of(0), **given)


def test_what_asynchronous_optimizers_can_not_do_is_refused(two: WorkerSet) -> None:
    with pytest.raises(ConfigError, match="num_gpus=1, but an AsyncSamplesOptimizer learns where"):
        AsyncSamplesOptimizer(two, num_gpus=1)
    with pytest.raises(ConfigError, match="replay_proportion=1.0 needs samples that are kept"):
        AsyncSamplesOptimizer(two, replay_proportion=1.0)
    with pytest.raises(ConfigError, match="whole batches have no priorities"):
        AsyncReplayOptimizer(two, batch_replay=True)
    with pytest.raises(ConfigError, match="replay_mode is 'some', but must be"):
        LocalReplayBuffer(replay_mode="some")


def test_a_policy_without_errors_has_no_priorities() -> None:
    optimizer = SyncReplayOptimizer(workers_of(0), learning_starts=0, train_batch_size=4)
    with pytest.raises(RLlibError, match="'default_policy' reports no td_error for 4 rows"):
        optimizer.step()
