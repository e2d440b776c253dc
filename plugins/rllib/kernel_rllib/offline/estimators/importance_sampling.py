"""Step-wise importance sampling, plain and weighted (Precup, Sutton and Singh 2000; Thomas 2015, sections 3.6 and 3.7).

A reward counts by how much likelier the policy would have acted as was recorded up to there. Plain, the mean over
episodes is right on average and may vary much; weighted, ratios are divided by their mean over the episodes before,
which varies less and is right in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_rllib.data.batch import Batch
from kernel_rllib.offline.estimators.estimator import OffPolicyEstimate, OffPolicyEstimator

LEAST = 1e-8
"""A value below this is taken for it, where it is divided by."""


class ImportanceSamplingEstimator(OffPolicyEstimator):
    """Weighs the rewards of an episode by ratios of probabilities."""

    def estimate(self, batch: Batch) -> OffPolicyEstimate:
        """Return `V_prev`, the return that was recorded, `V_step_IS`, that of the policy, and how they compare."""
        rewards = self.discounted(batch)
        before, now = float(rewards.sum()), float((self.ratios(batch) * rewards).sum())
        return OffPolicyEstimate("is", {"V_prev": before, "V_step_IS": now, "V_gain_est": now / max(LEAST, before)})


class WeightedImportanceSamplingEstimator(OffPolicyEstimator):
    """Weighs them by ratios over the mean ratio of that step in all episodes so far, this one among them."""

    def __init__(self, policy: Any, gamma: float) -> None:
        """Estimate for a policy; see `OffPolicyEstimator`."""
        super().__init__(policy, gamma)
        self._sums = np.zeros(0)
        self._counts = np.zeros(0)

    def estimate(self, batch: Batch) -> OffPolicyEstimate:
        """Return `V_prev`, the return that was recorded, `V_step_WIS`, that of the policy, and how they compare."""
        rewards, ratios = self.discounted(batch), self.ratios(batch)
        missing = max(len(ratios) - len(self._sums), 0)
        self._sums, self._counts = (np.concatenate([each, np.zeros(missing)]) for each in (self._sums, self._counts))
        self._sums[: len(ratios)] += ratios
        self._counts[: len(ratios)] += 1
        means = self._sums[: len(ratios)] / self._counts[: len(ratios)]
        weights = np.divide(ratios, means, out=np.zeros_like(ratios), where=means > 0)
        before, now = float(rewards.sum()), float((weights * rewards).sum())
        return OffPolicyEstimate("wis", {"V_prev": before, "V_step_WIS": now, "V_gain_est": now / max(LEAST, before)})
