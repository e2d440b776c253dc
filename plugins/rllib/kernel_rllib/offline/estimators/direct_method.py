"""The direct method: a policy is worth what a model of values says of where episodes begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.offline.estimators.batch_estimator import BatchEstimator
from kernel_rllib.offline.estimators.q_models import q_model


class DirectMethod(BatchEstimator):
    """Asks a model, which `train` fits. It varies little, and is as wrong as the model is."""

    needs_action_prob: ClassVar[bool] = False

    def __init__(
        self,
        policy: Any,
        gamma: float,
        epsilon_greedy: float = 0.0,
        q_model_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Estimate for a policy.

        Args:
            policy: The policy; see `BatchEstimator`, and `FittedQEvaluation` for what that asks of it.
            gamma: The discount factor, by which a reward counts less for each step that it comes later.
            epsilon_greedy: The share of steps in which the policy is taken to act at random.
            q_model_config: `type`, the class of the model, and its arguments; fitted Q evaluation by default.
        """
        super().__init__(policy, gamma, epsilon_greedy)
        self.model = q_model(_Mixed(self) if epsilon_greedy else policy, gamma, q_model_config)

    def train(self, batch: Batch) -> dict[str, Any]:
        """Fit the model, and return its loss."""
        return {"loss": self.model.train(batch)}

    def estimate_on_single_episode(self, episode: Batch) -> dict[str, Any]:
        """Return `v_behavior` and `v_target` of an episode."""
        value = float(self.model.estimate_v(episode.slice(0, 1))[0])
        return {"v_behavior": self.discounted_return(episode), "v_target": value}

    def estimate_on_single_step_samples(self, batch: Batch) -> dict[str, Any]:
        """Return `v_behavior` and `v_target` of each step [N]."""
        return {
            "v_behavior": np.asarray(batch[columns.REWARDS], np.float64),
            "v_target": np.asarray(self.model.estimate_v(batch), np.float64),
        }


class _Mixed:
    """The policy of an estimator with its random steps, as a model asks it."""

    def __init__(self, estimator: BatchEstimator) -> None:
        self._estimator, self.action_space = estimator, estimator.policy.action_space

    def compute_log_likelihoods(self, actions: Any, obs_batch: Any) -> Any:
        return np.log(self._estimator.action_prob(Batch(actions=actions, obs=obs_batch)))
