"""A worker of DD-PPO (Wijmans et al., 2019, arXiv 1911.00357), which learns in step with the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.arrays import Array
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data.batch import Batch
from kernel_rllib.learners.all_reduce import AllReduce, Key
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.runners.env_runner import EnvRunner, Sample
from kernel_rllib.runners.sampler import Sampler
from kernel_rllib.training.progress import Progress
from kernel_rllib.training.reports import Reports
from kernel_rllib.training.results import mean_metrics
from kernel_rllib.training.spaces import Spaces


@dataclass
class Learned:
    """Holds the report of a worker on one training step.

    Attributes:
        metrics: Means of what the loss reported.
        count: The number of rows that it learned from, in all passes.
        state: All that its learner needs to go on elsewhere; of the first worker only.
    """

    metrics: Metrics
    count: int
    state: dict[str, Any]


class LearningWork:
    """Learns from the samples of one worker, in step with the other workers."""

    all_reduce: AllReduce
    """The means of all workers; made by `join`, in the worker's process."""

    def __init__(self, config: PPOConfig, spaces: Spaces, seed: int) -> None:
        """Take what the policy is made of; it is made when it is first needed, in the worker's process."""
        self._config, self._spaces, self._seed = config, spaces, seed
        self._policy: PPO | None = None

    @property
    def policy(self) -> PPO:
        """The policy and its learner, with parameters by the seed of the run: the same ones in all workers."""
        if self._policy is None:
            policy = self._policy = PPO.__new__(PPO)  # the half that learns: this one has no runners
            policy.seed, policy.progress, policy.reports = self._seed, Progress(), Reports(self._config)
            policy.policies = {DEFAULT_POLICY_ID: policy}
            policy.begin_learning(DEFAULT_POLICY_ID, self._config, self._spaces)
        return self._policy

    def __call__(self, runner: EnvRunner, sample: Sample) -> Sample:
        """Learn, together with the others, and return the sample without its experience."""
        policy, acting = self.policy, cast(Sampler, runner.sampler)  # There is one agent, as there is one policy.
        policy.env_steps_sampled = acting.timestep
        batch = policy.experience([sample.fragments[DEFAULT_POLICY_ID]])
        size = self._config.minibatch_size or batch.count
        stream = policy.stream("minibatches", self.all_reduce.rank, policy.learner.version)
        reports, count = [], 0
        for _ in range(self._config.num_epochs or 1):
            minibatches = list(batch.minibatches(size, stream, shuffle=self._config.shuffle_batch_per_epoch))
            for minibatch in minibatches[: self.all_reduce.least(len(minibatches))]:
                reports.append(self._step(minibatch))
                count += minibatch.count
        runner.set_weights(policy.learner.weights, policy.learner.version)
        state = policy.learner.state() if self.all_reduce.rank == 0 else {}
        return replace(sample, fragments={}, made=Learned(mean_metrics(reports), count, state))

    def join(self, index: int, handles: Sequence[Any]) -> None:
        """Take part in the means of all workers, given the handles of all in the order of ranks."""

        def send(rank: int, key: Key, array: Array) -> None:
            handles[rank].apply.remote(receive, key, array).future()  # The algorithm reports a dead worker.

        self.all_reduce = AllReduce(index, len(handles), send)

    def _step(self, minibatch: Batch) -> Metrics:
        """Make one step by the mean of all workers' gradients: equation 1."""
        policy = self.policy
        learner = policy.learner
        told = policy.reports.before_learning(learner, self._spaces, minibatch)
        metrics, gradient = learner.gradient("ppo", minibatch)
        mean = learner.backend.vector(self.all_reduce.mean(learner.backend.to_numpy(gradient)))
        return {**learner.apply("ppo", mean, policy.env_steps_sampled, metrics, minibatch), **told}


def join(runner: EnvRunner, handles: Sequence[Any]) -> None:
    """Let a worker take part in the means of all, given the handles of all in the order of ranks."""
    _work_of(runner).join(runner.index - 1, handles)


def receive(runner: EnvRunner, key: Key, array: Array) -> None:
    """Let a worker have what another sent."""
    _work_of(runner).all_reduce.receive(key, array)


def set_learner_state(runner: EnvRunner, state: Mapping[str, Any]) -> None:
    """Let the learner of a worker go on with a state."""
    _work_of(runner).policy.learner.set_state(state)


def _work_of(runner: EnvRunner) -> LearningWork:
    return cast(LearningWork, runner.work)
