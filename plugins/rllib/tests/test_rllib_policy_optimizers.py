"""Policy optimizers of the first generation, on workers without an algorithm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.policy_optimizers import (
    AsyncGradientsOptimizer,
    PolicyOptimizer,
    SyncSamplesOptimizer,
)
from kernel_rllib.first_generation.rollout_worker import WorkerSet
from kernel_rllib.testing.summing_policy import workers_of


@pytest.fixture
def two(session: None) -> Iterator[WorkerSet]:
    """Two workers in actors."""
    found = workers_of(2)
    made = found.remote_workers()
    yield found
    found.reset(made)
    found.stop()


def test_a_batch_is_sampled_until_it_is_enough_and_learned_from_as_a_whole() -> None:
    optimizer = SyncSamplesOptimizer(workers_of(0), num_sgd_iter=2, train_batch_size=25)
    assert optimizer.step() == {"default_policy": {"rows": 30}}
    policy = optimizer.workers.local_worker().get_policy()
    assert [batch.count for batch in policy.batches] == [30, 30]
    expected = {"num_steps_trained": 30, "num_steps_sampled": 30}
    assert optimizer.stats() == {**expected, "learner": {"default_policy": {"rows": 30}}}
    other = SyncSamplesOptimizer(workers_of(0))
    other.restore(optimizer.save())
    other.step()
    assert other.num_steps_sampled == 40


def test_minibatches_are_of_all_rows_and_columns_are_standardised() -> None:
    optimizer = SyncSamplesOptimizer(
        workers_of(0), num_sgd_iter=2, train_batch_size=20, sgd_minibatch_size=5, standardize_fields=["t"]
    )
    optimizer.step()
    batches = optimizer.workers.local_worker().get_policy().batches
    assert [batch.count for batch in batches] == [5] * 8
    for epoch in batches[:4], batches[4:]:
        values = Batch.concat_samples(epoch)["t"]
        assert values.mean() == pytest.approx(0, abs=1e-5) and values.std() == pytest.approx(1, rel=1e-4)
    assert [*batches[0]["t"]] != [*batches[4]["t"]]


def test_workers_elsewhere_sample_with_the_weights_of_now(two: WorkerSet) -> None:
    optimizer = SyncSamplesOptimizer(two, train_batch_size=40)
    optimizer.step()
    optimizer.step()
    assert optimizer.foreach_worker(lambda worker: worker.get_policy().learned) == [80, 40, 40]
    assert optimizer.foreach_worker_with_index(lambda worker, index: index) == [0, 1, 2]
    result = optimizer.collect_metrics(min_history=3)
    assert 5 < result["episode_reward_mean"] < 15 and result["episodes_this_iter"] >= 4
    assert result["episode_reward_min"] <= result["episode_len_mean"] <= result["episode_reward_max"]
    assert result["info"]["num_steps_sampled"] == 80
    again = optimizer.collect_metrics(min_history=3)
    assert again["episodes_this_iter"] == 0 and again["episode_reward_mean"] > 0
    first, second = two.remote_workers()
    optimizer.reset([second])
    assert two.remote_workers() == [second] != [first]


def test_gradients_are_applied_as_they_come(two: WorkerSet) -> None:
    optimizer = AsyncGradientsOptimizer(two, grads_per_step=5)
    reported = optimizer.step()
    assert optimizer.num_steps_sampled == optimizer.num_steps_trained == 50
    assert two.local_worker().get_policy().learned == 50
    assert reported["seen"] in (0, 10, 20, 30, 40)
    optimizer.step()
    assert optimizer.stats()["num_steps_trained"] == 100
    one = AsyncGradientsOptimizer(two, grads_per_step=1)
    one.step()
    assert one.num_steps_sampled == 10
    two.reset(two.remote_workers()[:1])
    before = two.local_worker().get_policy().learned
    assert AsyncGradientsOptimizer(two, grads_per_step=4).step() == {"seen": before + 30}, "weights of three gradients"


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="AsyncGradientsOptimizer has no workers elsewhere"):
        AsyncGradientsOptimizer(workers_of(0))
    with pytest.raises(NotImplementedError, match=r"PolicyOptimizer has no step\(\): define it"):
        PolicyOptimizer(workers_of(0)).step()
