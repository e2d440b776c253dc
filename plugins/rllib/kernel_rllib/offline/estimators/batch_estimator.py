"""The contract of estimators that are asked of many episodes at once, or of single steps, as RLlib 2.x has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError, DataError
from kernel_rllib.offline.estimators.estimator import recorded_prob

LEAST = 1e-8
"""A value below this is taken for it, where it is divided by."""


class BatchEstimator(ABC):
    """Estimates the value of a policy by a batch that another one recorded. Users know it as `OffPolicyEstimator`."""

    needs_action_prob: ClassVar[bool] = True
    """Whether it has to know how likely the recorded actions were."""

    def __init__(self, policy: Any, gamma: float = 0.0, epsilon_greedy: float = 0.0) -> None:
        """Estimate for a policy.

        Args:
            policy: Tells how likely it would have acted so: `compute_log_likelihoods(actions, obs_batch)`.
            gamma: The discount factor, by which a reward counts less for each step that it comes later.
            epsilon_greedy: The share of steps in which the policy is taken to act at random; of discrete actions.

        Raises:
            ConfigError: If a policy is to act at random whose actions are not discrete.
        """
        self.policy, self.gamma, self.epsilon_greedy = policy, gamma, epsilon_greedy
        if epsilon_greedy:
            number_of_actions(policy, "epsilon_greedy")

    @abstractmethod
    def estimate_on_single_episode(self, episode: Batch) -> dict[str, Any]:
        """Return `v_behavior`, the return of an episode from its first step, and `v_target`, that of the policy."""

    @abstractmethod
    def estimate_on_single_step_samples(self, batch: Batch) -> dict[str, Sequence[float] | Array]:
        """Return both for each step of a batch [N], as if each were an episode."""

    def on_before_split_batch_by_episode(self, sample_batch: Batch) -> Batch:
        """Return the batch that is split; by default this one."""
        return sample_batch

    def on_after_split_batch_by_episode(self, all_episodes: list[Batch]) -> list[Batch]:
        """Return the episodes that are estimated; by default these."""
        return all_episodes

    def peek_on_single_episode(self, episode: Batch) -> None:  # noqa: B027, subclasses need not look
        """Look at an episode, before any is estimated; by default do nothing."""

    def estimate(self, batch: Batch, split_batch_by_episode: bool = True) -> dict[str, Any]:
        """Return means and standard deviations over the episodes of a batch.

        Args:
            batch: Steps with `obs`, `actions`, `rewards`, and `action_prob` or `action_logp`; also `eps_id`, or flags
                of the ends of episodes, where it is split.
            split_batch_by_episode: Whether it is split into episodes; else each step is one.

        Returns:
            `v_behavior` and `v_target`, the discounted returns of what was recorded and of the policy, both with their
            standard deviations over episodes (`_std`); `v_gain`, how many times as much the second is, and
            `v_delta`, how much more.

        Raises:
            DataError: If the batch is empty, or lacks columns.
        """
        self._require(batch)
        if split_batch_by_episode:
            episodes = self.on_before_split_batch_by_episode(batch).split_by_episode()
            episodes = self.on_after_split_batch_by_episode(episodes)
            for episode in episodes:
                self.peek_on_single_episode(episode)
            each = [self.estimate_on_single_episode(episode) for episode in episodes]
            found: Mapping[str, Any] = {name: [one[name] for one in each] for name in ("v_behavior", "v_target")}
        else:
            found = self.estimate_on_single_step_samples(batch)
        before, now = (np.asarray(found[name], np.float64) for name in ("v_behavior", "v_target"))
        means = float(before.mean()), float(now.mean())
        return {
            "v_behavior": means[0],
            "v_behavior_std": float(before.std()),
            "v_target": means[1],
            "v_target_std": float(now.std()),
            "v_gain": means[1] / max(means[0], LEAST),
            "v_delta": means[1] - means[0],
        }

    def train(self, batch: Batch) -> dict[str, Any]:
        """Fit what the estimator learns to a batch, and return metrics; by default nothing is learned."""
        return {}

    def action_prob(self, batch: Batch) -> Array:
        """Return how likely the policy would have done the same in each step [N], in float64."""
        logs = self.policy.compute_log_likelihoods(batch[columns.ACTIONS], batch[columns.OBS])
        likely: Array = np.exp(np.asarray(logs, np.float64))
        if self.epsilon_greedy:
            count = number_of_actions(self.policy, "epsilon_greedy")
            likely = likely * (1 - self.epsilon_greedy) + self.epsilon_greedy / count
        return likely

    def ratios(self, batch: Batch) -> Array:
        """Return how much likelier the policy would have acted so in each step [N], in float64."""
        ratios: Array = self.action_prob(batch) / recorded_prob(batch)
        return ratios

    def discounted_return(self, episode: Batch) -> float:
        """Return the rewards of an episode, as they count at its beginning."""
        rewards = np.asarray(episode[columns.REWARDS], np.float64)
        return float(rewards @ self.gamma ** np.arange(len(rewards)))

    def _require(self, batch: Batch) -> None:
        if not batch.count:
            raise DataError(f"{type(self).__name__} was given a batch without steps: read some first")
        if self.needs_action_prob:
            recorded_prob(batch)


def number_of_actions(policy: Any, what: str) -> int:
    """Return how many actions a policy chooses from.

    Args:
        policy: The policy.
        what: The name of the object that asks, as users know it.

    Raises:
        ConfigError: If they are not discrete.
    """
    count = getattr(policy.action_space, "n", None)
    if count is None:
        raise ConfigError(
            f"{what} is for discrete actions, and those of this policy are of {policy.action_space}: take "
            "ImportanceSampling or WeightedImportanceSampling, which ask for the recorded actions alone"
        )
    return int(count)
