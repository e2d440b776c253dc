"""The contract of estimators: from an episode that one policy played, to what another one is worth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError


class OffPolicyEstimate(NamedTuple):
    """The estimates for one episode.

    Attributes:
        estimator_name: Its name.
        metrics: Its numbers by their names.
    """

    estimator_name: str
    metrics: dict[str, Any]


class OffPolicyEstimator(ABC):
    """Estimates the value of a policy by episodes of another one."""

    def __init__(self, policy: Any, gamma: float) -> None:
        """Estimate for a policy.

        Args:
            policy: Tells how likely it would have acted so: `compute_log_likelihoods(actions, obs_batch)`.
            gamma: The discount factor, by which a reward counts less for each step that it comes later.
        """
        self.policy, self.gamma = policy, gamma

    @abstractmethod
    def estimate(self, batch: Batch) -> OffPolicyEstimate:
        """Return what an episode says of the policy.

        Args:
            batch: The steps of one episode, with `obs`, `actions`, `rewards`, and `action_prob` or `action_logp`.

        Raises:
            DataError: If it does not say how likely its actions were.
        """

    def action_prob(self, batch: Batch) -> Array:
        """Return how likely the policy would have done the same in each step [T]."""
        logs = self.policy.compute_log_likelihoods(batch[columns.ACTIONS], batch[columns.OBS])
        likely: Array = np.exp(np.asarray(logs, np.float64))
        return likely

    def ratios(self, batch: Batch) -> Array:
        """Return how much likelier the policy would have acted so, from the first step to each [T], in float64."""
        ratios: Array = np.cumprod(self.action_prob(batch) / recorded_prob(batch))
        return ratios

    def discounted(self, batch: Batch) -> Array:
        """Return the rewards of an episode, as they count at its beginning [T], in float64."""
        rewards = np.asarray(batch[columns.REWARDS], np.float64)
        found: Array = rewards * self.gamma ** np.arange(len(rewards))
        return found


def recorded_prob(batch: Mapping[str, Array]) -> Array:
    """Return how likely the actions of a batch were where they were recorded [T], in float64.

    Raises:
        DataError: If it does not say so.
    """
    if columns.ACTION_PROB in batch:
        return np.asarray(batch[columns.ACTION_PROB], np.float64)
    if columns.ACTION_LOGP in batch:
        likely: Array = np.exp(np.asarray(batch[columns.ACTION_LOGP], np.float64))
        return likely
    raise DataError(
        f"an episode can't be weighed: it has neither action_prob nor action_logp, only {', '.join(sorted(batch))}. "
        "Record how likely actions were, with a policy that draws them (PPO; DQN by values alone tells none)"
    )
