"""Make transitions of a runner's samples before they are kept, with their initial errors.

So no process has to look at a step before it is drawn (Horgan et al., 2018, section 3 and algorithm 1): priorities of
new rows are those of the parameters that acted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from kernel_rllib.algorithms.replaying import ReplayingAlgorithm
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.runners.env_runner import EnvRunner, Sample
from kernel_rllib.runners.multi_agent_sampler import MultiAgentSampler
from kernel_rllib.training.progress import Progress
from kernel_rllib.training.reports import Reports
from kernel_rllib.training.spaces import Spaces


class ExperienceWork:
    """Makes experience of a runner's sample, where the runner is."""

    def __init__(
        self, algorithm: type[ReplayingAlgorithm], policies: Mapping[str, tuple[AlgorithmConfig, Spaces]], seed: int
    ) -> None:
        """Take what policies are made of; they are made when they are first needed, in the runner's process.

        Args:
            algorithm: The class that learns them.
            policies: The settings of each, and what it observes and chooses from.
            seed: The seed of the run.
        """
        self._algorithm, self._policies, self._seed = algorithm, policies, seed
        self._made: dict[str, ReplayingAlgorithm] = {}

    def __call__(self, runner: EnvRunner, sample: Sample) -> Sample:
        """Return the sample with experience in place of the fragments of the policies that it knows."""
        left, made = dict(sample.fragments), {}
        for policy_id in self._policies:
            if policy_id in left:
                vector = acting_parameters(runner, policy_id)
                made[policy_id] = self._policy(policy_id).experience_of(left.pop(policy_id), vector)
        return replace(sample, fragments=left, made=made)

    def _policy(self, policy_id: str) -> ReplayingAlgorithm:
        if policy_id not in self._made:
            config, spaces = self._policies[policy_id]
            policy = self._made[policy_id] = self._algorithm.__new__(self._algorithm)
            policy.keeps_samples = False
            policy.seed, policy.progress, policy.reports = self._seed, Progress(), Reports(config)
            policy.begin_learning(policy_id, config, spaces)
        return self._made[policy_id]


def acting_parameters(runner: EnvRunner, policy_id: str) -> Array:
    """Return the parameters that a policy acts with in a runner [size]."""
    sampler: Any = runner.sampler
    if isinstance(sampler, MultiAgentSampler):
        return cast(Array, sampler.modules[policy_id].vector)  # type: ignore[union-attr]
    return cast(Array, sampler.weights)
