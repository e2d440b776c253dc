"""The policy's loss of CRR and IQL: imitate what was recorded, each action by a weight that critics have given it."""

from __future__ import annotations

from typing import Any

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops

ACTION_WEIGHTS = "action_weights"
"""The column of how much each recorded action is imitated [N]."""


def weighted_imitation_loss(distribution: Distribution) -> Loss:
    """Return minus the mean of log pi(a | s) times the column `action_weights`, for recorded actions a.

    Args:
        distribution: The policy's.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        inputs = module.train(nn, parameters, batch)[columns.ACTION_DIST_INPUTS]
        log_probs = distribution.log_prob(nn, inputs, nn.constant(batch[columns.ACTIONS]))
        total = -nn.mean(log_probs * nn.constant(batch[ACTION_WEIGHTS]))
        return total, {"actor_loss": total}

    return loss


def told_of_weights(advantages: Array, weights: Array) -> Metrics:
    """Return what is reported of advantages [N] and of the weights [N] that were made of them."""
    return {
        "advantages_mean": float(advantages.mean()),
        "advantages_max": float(advantages.max()),
        "weights_mean": float(weights.mean()),
        "weights_max": float(weights.max()),
    }
