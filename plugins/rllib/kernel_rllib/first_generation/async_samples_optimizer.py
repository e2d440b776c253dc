"""The policy optimizer of IMPALA in the first generation: workers sample all the time, the local one learns."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

import kernel
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.policy_optimizers import PolicyOptimizer
from kernel_rllib.first_generation.rollout_worker import WorkerSet
from kernel_rllib.first_generation.sample_requests import SampleRequests


class AsyncSamplesOptimizer(PolicyOptimizer):
    """Learns from samples as workers bring them; a worker goes on with the weights of then."""

    def __init__(
        self,
        workers: WorkerSet,
        train_batch_size: int = 500,
        rollout_fragment_length: int = 50,
        num_envs_per_worker: int = 1,
        num_gpus: float = 0,
        lr: float = 0.0005,
        replay_buffer_num_slots: int = 0,
        replay_proportion: float = 0.0,
        num_data_loader_buffers: int = 1,
        max_sample_requests_in_flight_per_worker: int = 2,
        broadcast_interval: int = 1,
        num_sgd_iter: int = 1,
        minibatch_buffer_size: int = 1,
        learner_queue_size: int = 16,
        learner_queue_timeout: float = 300,
        num_aggregation_workers: int = 0,
        _fake_gpus: bool = False,
        seed: int = 0,
    ) -> None:
        """Say how much is learned from, and how often.

        Args:
            workers: The workers; there have to be some elsewhere.
            train_batch_size: The least number of steps of an update.
            rollout_fragment_length, num_envs_per_worker, lr: Accepted: workers and policies have them already.
            num_gpus: 0: policies learn where the local worker is.
            replay_buffer_num_slots: The number of samples that are kept to be learned from again.
            replay_proportion: How many samples are drawn of those for each new one; 0.5 is one for two new ones.
            max_sample_requests_in_flight_per_worker: How many samples a worker is asked for at a time.
            broadcast_interval: After how many updates workers are given weights, each with its next sample.
            num_sgd_iter: How often each batch is learned from, as long as it is kept.
            minibatch_buffer_size: The number of batches that are kept and learned from in turn.
            num_data_loader_buffers, learner_queue_size, learner_queue_timeout, num_aggregation_workers, _fake_gpus:
                Accepted: a step learns as soon as a batch is there, in this process, so there are no queues.
            seed: The seed of draws of what is replayed.

        Raises:
            ConfigError: If there are no workers elsewhere, or something is asked for that can't be.
        """
        super().__init__(workers)
        if not workers.remote_workers():
            raise ConfigError(
                "AsyncSamplesOptimizer has no workers elsewhere, which sample: make the WorkerSet with num_workers "
                "above 0"
            )
        if num_gpus:
            raise ConfigError(
                f"num_gpus={num_gpus}, but an AsyncSamplesOptimizer learns where the local worker is, on its CPU: set "
                "it to 0, or train with IMPALA, whose learner takes a GPU"
            )
        if replay_proportion and not replay_buffer_num_slots:
            raise ConfigError(
                f"replay_proportion={replay_proportion} needs samples that are kept: set replay_buffer_num_slots"
            )
        self._least, self._every = train_batch_size, broadcast_interval
        self._passes, self._kept_batches = num_sgd_iter, minibatch_buffer_size
        self._requests = SampleRequests(max_sample_requests_in_flight_per_worker)
        self._slots: deque[Batch | MultiAgentBatch] = deque(maxlen=replay_buffer_num_slots)
        self._proportion, self._owed = replay_proportion, 0.0
        self._stream = np.random.default_rng(seed)
        self._gathered: list[Batch | MultiAgentBatch] = []
        self._learning: list[list[Any]] = []
        self._turn = 0
        self._updates, self._weights_version = 0, 0
        self._versions: dict[Any, int] = {}
        self._weights: kernel.ObjectRef | None = None
        self.num_steps_replayed = 0
        """The number of steps among those learned from that were not new."""
        self.num_weight_syncs = 0
        """How often a worker was given weights."""
        self._reported: dict[str, Any] = {}

    def step(self) -> dict[str, Any]:
        """Wait until a batch is full, learn from it, and return what policies report, by policy."""
        remote = self.workers.remote_workers()
        if self._weights is None:
            self._broadcast()
            for worker in remote:
                self._hand_over(worker)
        self._requests.ask(remote)
        while sum(sample.count for sample in self._gathered) < self._least:
            worker, found = self._requests.next()
            self._take(kernel.get(found))
            self._hand_over(worker)
            self._requests.ask(remote)
        batch = Batch.concat_samples(self._gathered)
        self._gathered = []
        self._learn(batch)
        return self._reported

    def stop(self) -> None:
        """Drop what workers were asked for."""
        self._requests.drop()

    def stats(self) -> dict[str, Any]:
        """Return the numbers of steps and of weights handed over, and as `learner` what was reported last."""
        return {
            **super().stats(),
            "num_steps_replayed": self.num_steps_replayed,
            "num_weight_syncs": self.num_weight_syncs,
            "learner": self._reported,
        }

    def _take(self, sample: Batch | MultiAgentBatch) -> None:
        """Gather a new sample, and what is due of older ones."""
        self._gathered.append(sample)
        self.num_steps_sampled += sample.count
        self._owed += self._proportion if self._slots else 0.0
        while self._owed >= 1:
            self._owed -= 1
            again = self._slots[int(self._stream.integers(len(self._slots)))]
            self._gathered.append(again)
            self.num_steps_replayed += again.count
        self._slots.append(sample)

    def _learn(self, batch: Batch | MultiAgentBatch) -> None:
        """Learn from kept batches in turn, one update for the new one and one for each further pass of a kept one."""
        self._learning.append([batch, self._passes])
        if len(self._learning) < self._kept_batches:
            return
        due = self._passes
        while due and self._learning:
            self._turn %= len(self._learning)
            chosen = self._learning[self._turn]
            self._reported = self.workers.local_worker().learn_on_batch(chosen[0])
            self.num_steps_trained += chosen[0].count
            chosen[1] -= 1
            due -= 1
            if chosen[1]:
                self._turn += 1
            else:
                self._learning.pop(self._turn)
            self._updates += 1
            if self._updates % self._every == 0:
                self._broadcast()

    def _broadcast(self) -> None:
        self._weights = kernel.put(self.workers.local_worker().get_weights())
        self._weights_version += 1

    def _hand_over(self, worker: Any) -> None:
        """Give a worker the newest weights, unless it has them."""
        if self._versions.get(worker) != self._weights_version:
            worker.set_weights.remote(self._weights)
            self._versions[worker] = self._weights_version
            self.num_weight_syncs += 1
