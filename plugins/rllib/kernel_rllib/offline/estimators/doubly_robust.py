"""The doubly robust estimator (Jiang and Li 2016, arXiv 1511.03722, equation 10).

It is what a model of values says, mended in each step by what was seen there:
    V_DR(t) = V(s_t) + rho_t (r_t + gamma V_DR(t + 1) - Q(s_t, a_t)),
in which rho is how much likelier the policy would have acted so. On average it is right if either the model is, or the
probabilities of the recorded actions are, and the model does not depend on the episodes that it is used for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.offline.estimators.direct_method import DirectMethod


class DoublyRobust(DirectMethod):
    """Mends what a model says by weighed rewards."""

    needs_action_prob: ClassVar[bool] = True

    def __init__(
        self,
        policy: Any,
        gamma: float,
        epsilon_greedy: float = 0.0,
        normalize_weights: bool = True,
        q_model_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Estimate for a policy.

        Args:
            policy: The policy; see `DirectMethod`.
            gamma: The discount factor, by which a reward counts less for each step that it comes later.
            epsilon_greedy: The share of steps in which the policy is taken to act at random.
            normalize_weights: Whether ratios are divided by their mean where single steps are estimated. That varies
                less, and is right in the end only.
            q_model_config: The model of values; see `DirectMethod`.
        """
        super().__init__(policy, gamma, epsilon_greedy, q_model_config)
        self.normalize_weights = normalize_weights

    def estimate_on_single_episode(self, episode: Batch) -> dict[str, Any]:
        """Return `v_behavior` and `v_target` of an episode."""
        value = 0.0
        for reward, ratio, q, v in zip(*map(reversed, self._steps(episode)), strict=True):
            value = v + ratio * (reward + self.gamma * value - q)
        return {"v_behavior": self.discounted_return(episode), "v_target": float(value)}

    def estimate_on_single_step_samples(self, batch: Batch) -> dict[str, Any]:
        """Return `v_behavior` and `v_target` of each step [N]."""
        rewards, ratios, q, v = self._steps(batch)
        if self.normalize_weights and ratios.mean() > 0:
            ratios = ratios / ratios.mean()
        return {"v_behavior": rewards, "v_target": v + ratios * (rewards - q)}

    def _steps(self, batch: Batch) -> tuple[Array, Array, Array, Array]:
        """Return the rewards of steps, their ratios, and the values of their actions and observations, each [N]."""
        rewards = np.asarray(batch[columns.REWARDS], np.float64)
        q, v = (np.asarray(each(batch), np.float64) for each in (self.model.estimate_q, self.model.estimate_v))
        return rewards, self.ratios(batch), q, v
