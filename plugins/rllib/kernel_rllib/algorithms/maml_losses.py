"""The losses of MAML: a policy gradient to adapt by, PPO's loss after adaptation, and how far policies have moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops

WITHIN = "within_bound"
"""The column of which errors of values are within their bound, at the parameters that a step starts from."""


def inner_loss(config: Any, distribution: Distribution) -> Loss:
    """Return the loss of a step of adaptation: mean( -r A + c1 min((V - R)^2, v) - c2 H ).

    Here r = pi(a|s) / pi_old(a|s), whose gradient where the two are equal is that of log pi(a|s): the policy gradient
    (equation 4 of the paper). The bound v of values is where the column `within_bound` says.

    Args:
        config: The settings, with c1 (`vf_loss_coeff`), v (`vf_clip_param`) and c2 (`entropy_coeff`).
        distribution: The distribution of the policy's actions.
    """
    return _task_loss(config, distribution, clips=False)


def outer_loss(config: Any, distribution: Distribution) -> Loss:
    """Return the loss of adapted policies: PPO's, with its clipped surrogate, of what they sampled themselves."""
    return _task_loss(config, distribution, clips=True)


def policy_distance(distribution: Distribution, weight: float) -> Loss:
    """Return the loss that is the mean KL divergence of a policy from the one that sampled, times a weight."""

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        inputs = module.train(nn, parameters, batch)[columns.ACTION_DIST_INPUTS]
        kl = nn.mean(distribution.kl(nn, nn.constant(batch[columns.ACTION_DIST_INPUTS]), inputs))
        return weight * kl, {"kl": kl}

    return loss


def within_bound(values: Array, targets: Array, bound: float) -> Array:
    """Return which squared errors of values [N] are less than their bound, as booleans."""
    found: Array = np.square(values - targets) < bound
    return found


def wide(batch: Mapping[str, Array]) -> Batch:
    """Return a batch whose floats are float64."""
    floats = {name: column.astype(np.float64) for name, column in batch.items() if column.dtype.kind == "f"}
    return Batch({**batch, **floats})


def _task_loss(config: Any, distribution: Distribution, *, clips: bool) -> Loss:
    low, high = 1.0 - config.clip_param, 1.0 + config.clip_param

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        outputs = module.train(nn, parameters, batch)
        inputs, actions = outputs[columns.ACTION_DIST_INPUTS], nn.constant(batch[columns.ACTIONS])
        log_probs, entropies = distribution.log_prob_and_entropy(nn, inputs, actions)
        before, advantages = nn.constant(batch[columns.ACTION_LOGP]), nn.constant(batch[columns.ADVANTAGES])
        if clips:
            surrogate = nn.clipped_surrogate(log_probs, before, advantages, low, high)
        else:
            surrogate = nn.exp(log_probs - before) * advantages
        policy_loss, entropy = -nn.mean(surrogate), nn.mean(entropies)
        errors = nn.square(outputs[columns.VF_PREDS] - nn.constant(batch[columns.VALUE_TARGETS]))
        if WITHIN in batch:  # A bound that moved with the parameters would be a kink; see `learners.adaptation`.
            value_loss = nn.mean(nn.where(batch[WITHIN], errors, config.vf_clip_param))
        else:
            value_loss = nn.mean(nn.clip(errors, 0.0, config.vf_clip_param))
        total = policy_loss + config.vf_loss_coeff * value_loss - config.entropy_coeff * entropy
        metrics = {"policy_loss": policy_loss, "vf_loss": value_loss, "entropy": entropy, "total_loss": total}
        return total, metrics

    return loss
