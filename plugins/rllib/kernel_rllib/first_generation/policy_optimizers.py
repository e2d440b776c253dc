"""Policy optimizers of the first generation: how workers sample, and the local one learns. `step()` is called for ever.

Two learn from what policies have just sampled: `SyncSamplesOptimizer` takes samples of all workers and learns from them
together (PPO's and PG's); `AsyncGradientsOptimizer` applies gradients as workers bring them (A3C's: Mnih et al., 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

import kernel
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.rollout_worker import WorkerSet
from kernel_rllib.policy.rollout_metrics import RolloutMetrics


class PolicyOptimizer:
    """Derive from it, and define `step()`."""

    def __init__(self, workers: WorkerSet) -> None:
        """Take the workers; the policies of the local one learn."""
        self.workers = workers
        self.num_steps_trained = 0
        """The number of steps that were learned from; each counts as often as it was sampled."""
        self.num_steps_sampled = 0
        """The number of steps that were sampled."""
        self._episodes: list[RolloutMetrics] = []

    def step(self) -> Any:
        """Sample, learn, and return what policies report."""
        raise NotImplementedError(f"{type(self).__name__} has no step(): define it")

    def stats(self) -> dict[str, Any]:
        """Return how many steps were sampled and learned from."""
        return {"num_steps_trained": self.num_steps_trained, "num_steps_sampled": self.num_steps_sampled}

    def save(self) -> list[int]:
        """Return what `restore` takes."""
        return [self.num_steps_trained, self.num_steps_sampled]

    def restore(self, data: Sequence[int]) -> None:
        """Go on with what `save` returned."""
        self.num_steps_trained, self.num_steps_sampled = map(int, data)

    def stop(self) -> None:
        """Drop what workers were asked for."""

    def reset(self, remote_workers: Sequence[Any]) -> None:
        """Go on with these workers in the place of those elsewhere."""
        self.workers.reset(remote_workers)

    def foreach_worker(self, func: Callable[[Any], Any]) -> list[Any]:
        """Return what the function returns for each worker, the local one first."""
        return self.workers.foreach_worker(func)

    def foreach_worker_with_index(self, func: Callable[[Any, int], Any]) -> list[Any]:
        """Return what `func(worker, index)` returns for each worker, the local one first."""
        return self.workers.foreach_worker_with_index(func)

    def collect_metrics(
        self, timeout_seconds: float = 180, min_history: int = 100, selected_workers: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Return a result: the returns and lengths of episodes, and `stats()` as `info`.

        Args:
            timeout_seconds: How long workers elsewhere may take to tell their episodes; later ones are left out.
            min_history: Means are over so many episodes, of earlier calls too, where fewer ended since the last one.
            selected_workers: The handles of the workers to ask; None for all, and the local one.
        """
        asked = list(self.workers.remote_workers() if selected_workers is None else selected_workers)
        told = [worker.get_metrics.remote() for worker in asked]
        there = kernel.wait(told, num_returns=len(told), timeout=timeout_seconds)[0] if told else []
        new = [episode for episodes in kernel.get(there) for episode in episodes]
        if selected_workers is None:
            new += self.workers.local_worker().get_metrics()
        kept = self._episodes[-max(min_history - len(new), 0) :] if len(new) < min_history else []
        self._episodes = [*kept, *new]
        returns = np.array([episode.episode_reward for episode in self._episodes] or [np.nan])
        lengths = np.array([float(episode.episode_length) for episode in self._episodes] or [np.nan])
        return {
            "episode_reward_max": float(returns.max()),
            "episode_reward_min": float(returns.min()),
            "episode_reward_mean": float(returns.mean()),
            "episode_len_mean": float(lengths.mean()),
            "episodes_this_iter": len(new),
            "info": self.stats(),
        }


class SyncSamplesOptimizer(PolicyOptimizer):
    """Takes samples of all workers until they are enough, and learns from all of them."""

    def __init__(
        self,
        workers: WorkerSet,
        num_sgd_iter: int = 1,
        train_batch_size: int = 1,
        sgd_minibatch_size: int = 0,
        standardize_fields: Collection[str] = frozenset(),
    ) -> None:
        """Say how much is learned from, and how.

        Args:
            workers: The workers. Without any elsewhere, the local one samples.
            num_sgd_iter: How often all of a batch is learned from.
            train_batch_size: The least number of steps of a batch.
            sgd_minibatch_size: The number of rows of a minibatch; 0: a batch is learned from as a whole.
            standardize_fields: Columns that get a mean of 0 and a deviation of 1 first.
        """
        super().__init__(workers)
        self._passes, self._least, self._size = num_sgd_iter, train_batch_size, sgd_minibatch_size
        self._standardised = sorted(standardize_fields)
        self._stream = np.random.default_rng(0)
        self._shuffles = True
        self._reported: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        """Hand weights over, sample, learn, and return what policies report of the last update, by policy."""
        batch = sampled_by_all(self.workers, self._least)
        for policy_id, rows in batch.policy_batches.items():
            batch.policy_batches[policy_id] = self._prepared(rows)
        self._reported = self._learned(batch)
        self.num_steps_sampled += batch.count
        self.num_steps_trained += batch.count
        return self._reported

    def stats(self) -> dict[str, Any]:
        """Return the numbers of steps, and as `learner` what policies reported last."""
        return {**super().stats(), "learner": self._reported}

    def _prepared(self, rows: Batch) -> Batch:
        columns = dict(rows)
        for name in self._standardised:
            values = np.asarray(columns[name], np.float32)
            columns[name] = (values - values.mean()) / max(1e-4, float(values.std()))
        return Batch(columns)

    def _learned(self, batch: MultiAgentBatch) -> dict[str, Any]:
        local, reported = self.workers.local_worker(), {}
        if not self._size:
            for _ in range(self._passes):
                reported = local.learn_on_batch(batch)  # type: ignore[arg-type]
            return reported
        for policy_id, rows in batch.policy_batches.items():
            for part in rows.minibatches(self._size, self._stream, epochs=self._passes, shuffle=self._shuffles):
                of_one = MultiAgentBatch({policy_id: part}, part.count)
                reported |= local.learn_on_batch(of_one)  # type: ignore[arg-type]
        return reported


class LocalMultiGPUOptimizer(SyncSamplesOptimizer):
    """Learns from minibatches, several times from each; the policies are those of the local worker, on its CPU."""

    def __init__(
        self,
        workers: WorkerSet,
        sgd_batch_size: int = 128,
        num_sgd_iter: int = 10,
        rollout_fragment_length: int = 200,
        num_envs_per_worker: int = 1,
        train_batch_size: int = 1024,
        num_gpus: float = 0,
        standardize_fields: Collection[str] = (),
        shuffle_sequences: bool = True,
        _fake_gpus: bool = False,
    ) -> None:
        """Say how much is learned from, and how.

        Args:
            workers: The workers. Without any elsewhere, the local one samples.
            sgd_batch_size: The number of rows of a minibatch.
            num_sgd_iter: How often all of a batch is learned from.
            rollout_fragment_length, num_envs_per_worker, _fake_gpus: Accepted: workers have them already.
            train_batch_size: The least number of steps of a batch.
            num_gpus: 0: policies of the first generation learn on a CPU.
            standardize_fields: Columns that get a mean of 0 and a deviation of 1 first.
            shuffle_sequences: Whether minibatches are of rows by chance, and not in their order.

        Raises:
            ConfigError: If there are to be GPUs.
        """
        if num_gpus:
            raise ConfigError(
                f"num_gpus={num_gpus}, but a LocalMultiGPUOptimizer learns where the local worker is, on its CPU: set "
                "it to 0, or train with an algorithm such as PPO in torch"
            )
        super().__init__(workers, num_sgd_iter, train_batch_size, sgd_batch_size, frozenset(standardize_fields))
        self._shuffles = shuffle_sequences


class AsyncGradientsOptimizer(PolicyOptimizer):
    """Applies gradients as workers bring them; a worker goes on with the weights of then."""

    def __init__(self, workers: WorkerSet, grads_per_step: int = 100) -> None:
        """Say how many gradients a step applies.

        Raises:
            ConfigError: If there are no workers elsewhere.
        """
        super().__init__(workers)
        if not workers.remote_workers():
            raise ConfigError(
                "AsyncGradientsOptimizer has no workers elsewhere, which compute gradients: make the WorkerSet with "
                "num_workers above 0"
            )
        self._gradients_in_step = grads_per_step
        self._reported: Any = {}

    def step(self) -> Any:
        """Let workers compute gradients with the weights of now, apply so many, and return what is reported last."""
        local, asked = self.workers.local_worker(), {}
        weights = kernel.put(local.get_weights())
        for worker in self.workers.remote_workers()[: self._gradients_in_step]:
            asked[_asked(worker, weights)] = worker
        begun = len(asked)
        while asked:
            (first, *_), _ = kernel.wait(list(asked), num_returns=1)
            worker = asked.pop(first)
            gradients, self._reported, steps = kernel.get(first)
            local.apply_gradients(gradients)
            self.num_steps_sampled += steps
            self.num_steps_trained += steps
            if begun < self._gradients_in_step:
                asked[_asked(worker, kernel.put(local.get_weights()))] = worker
                begun += 1
        return self._reported

    def stats(self) -> dict[str, Any]:
        """Return the numbers of steps, and as `learner` what was reported with the last gradient."""
        return {**super().stats(), "learner": self._reported}


def sampled_by_all(workers: WorkerSet, least: int, send_weights: bool = True) -> MultiAgentBatch:
    """Return what all workers sample, of so many steps at least; the local one samples where there are no others.

    Args:
        workers: The workers.
        least: The least number of steps. Each worker samples once in any case.
        send_weights: Whether workers elsewhere go on with the local one's weights first.
    """
    local, remote = workers.local_worker(), workers.remote_workers()
    if remote and send_weights:
        weights = kernel.put(local.get_weights())
        kernel.get([worker.set_weights.remote(weights) for worker in remote])
    samples: list[Batch | MultiAgentBatch] = []
    while not samples or sum(sample.count for sample in samples) < least:
        samples += kernel.get([worker.sample.remote() for worker in remote]) if remote else [local.sample()]
    return Batch.concat_samples(samples).as_multi_agent()


def _asked(worker: Any, weights: kernel.ObjectRef) -> kernel.ObjectRef:
    """Let a worker compute gradients with these weights; return the reference to them."""
    worker.set_weights.remote(weights)
    asked: kernel.ObjectRef = worker.apply.remote(_sampled_gradients)
    return asked


def _sampled_gradients(worker: Any) -> tuple[Any, Any, int]:
    """Return the gradients for a new sample of a worker, what policies report of them, and its number of steps."""
    samples = worker.sample()
    gradients, reported = worker.compute_gradients(samples)
    return gradients, reported, samples.count
