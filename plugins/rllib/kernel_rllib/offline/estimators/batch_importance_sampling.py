"""Step-wise importance sampling of many episodes at once, plain and weighted (see `importance_sampling.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.offline.estimators.batch_estimator import BatchEstimator


class ImportanceSampling(BatchEstimator):
    """Weighs the rewards of an episode by ratios of probabilities."""

    def estimate_on_single_episode(self, episode: Batch) -> dict[str, Any]:
        """Return `v_behavior` and `v_target` of an episode."""
        return {
            "v_behavior": self.discounted_return(episode),
            "v_target": self._weighed(episode, self._so_far(episode)),
        }

    def estimate_on_single_step_samples(self, batch: Batch) -> dict[str, Any]:
        """Return `v_behavior` and `v_target` of each step [N]."""
        rewards = np.asarray(batch[columns.REWARDS], np.float64)
        return {"v_behavior": rewards, "v_target": self.ratios(batch) * rewards}

    def _so_far(self, episode: Batch) -> Array:
        """Return the ratios of all steps up to each [T]."""
        found: Array = np.cumprod(self.ratios(episode))
        return found

    def _weighed(self, episode: Batch, weights: Array) -> float:
        rewards = np.asarray(episode[columns.REWARDS], np.float64)
        return float((weights * rewards) @ self.gamma ** np.arange(len(rewards)))


class WeightedImportanceSampling(ImportanceSampling):
    """Weighs them by ratios over the mean ratio of that step in all episodes of the batch."""

    _means: Array

    def on_after_split_batch_by_episode(self, all_episodes: list[Batch]) -> list[Batch]:
        """Compute the mean ratio of each step, over the episodes that have it; return the episodes."""
        longest = max(episode.count for episode in all_episodes)
        sums, counts = np.zeros(longest), np.zeros(longest)
        for episode in all_episodes:
            sums[: episode.count] += self._so_far(episode)
            counts[: episode.count] += 1
        self._means = sums / counts
        return all_episodes

    def estimate_on_single_episode(self, episode: Batch) -> dict[str, Any]:
        """Return `v_behavior` and `v_target` of an episode of the batch that was split last."""
        weights = _over(self._so_far(episode), self._means[: episode.count])
        return {"v_behavior": self.discounted_return(episode), "v_target": self._weighed(episode, weights)}

    def estimate_on_single_step_samples(self, batch: Batch) -> dict[str, Any]:
        """Return `v_behavior` and `v_target` of each step [N]."""
        rewards, ratios = np.asarray(batch[columns.REWARDS], np.float64), self.ratios(batch)
        return {"v_behavior": rewards, "v_target": _over(ratios, np.full_like(ratios, ratios.mean())) * rewards}


def _over(ratios: Array, means: Array) -> Array:
    """Return ratios over their means, and 0 where the policy would never have come."""
    found: Array = np.divide(ratios, means, out=np.zeros_like(ratios), where=means > 0)
    return found
