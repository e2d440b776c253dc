"""The losses of DreamerV3 (Hafner et al. 2023, arXiv 2301.04104): of the world's model, the actor and the critic."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.symlog import two_hot_loss
from kernel_rllib.modules.world_model import DreamerNetworks
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.streams import FIRSTS, TERMINALS

PREDICTION, DYNAMICS, REPRESENTATION = 1.0, 0.5, 0.1
"""The weights of the parts of the world's loss (equation 4)."""
FREE_NATS = 1.0
"""Below this, a divergence is good enough (equation 5)."""
UNIFORMS, FEATURES, REWARD_BINS, WEIGHTS = "uniforms", "features", "reward_bins", "weights"
VALUE_BINS, SLOW_BINS = "value_bins", "slow_bins"
"""Columns of batches: what z is drawn by, h beside z, and weights of bins."""


def world_loss() -> Loss:
    """Return L(pred) + 0.5 L(dyn) + 0.1 L(rep) (equations 4 and 5), means over all steps of sequences.

    L(pred) is how far observations are off, squared, and how unlikely rewards and ends of episodes were. L(dyn) and
    L(rep) are max(1, KL(posterior, prior)); the first one moves the prior, the second one the posterior.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        networks = cast(DreamerNetworks, module)
        rows = batch[columns.OBS]
        h, z, posterior = networks.observe(nn, parameters, rows, batch[FIRSTS], batch[UNIFORMS])
        prior = networks.shares(nn, networks.prior(nn, parameters, h))
        features = nn.concat([h, nn.reshape(z, (*rows.shape[:2], networks.width))])
        observed = nn.constant(networks.split(rows)[0])
        error = nn.sum(nn.square(networks.decoder(nn, parameters, features) - observed), axis=-1)
        reward = two_hot_loss(nn, networks.reward(nn, parameters, features), batch[REWARD_BINS])
        going_on = networks.going_on(nn, parameters, features)[..., 0]
        ends = nn.constant(batch[TERMINALS].astype(np.float64))
        # -log sigmoid(x) = softplus(-x), and -log(1 - sigmoid(x)) = softplus(x)
        end = ends * nn.softplus(going_on) + (1.0 - ends) * nn.softplus(-going_on)
        dynamics = _divergence(nn, nn.stop_gradient(posterior), prior)
        representation = _divergence(nn, posterior, nn.stop_gradient(prior))
        parts = {
            "decoder_loss": nn.mean(error), "reward_loss": nn.mean(reward), "continue_loss": nn.mean(end),
            "dynamics_loss": nn.mean(nn.maximum(dynamics, nn.constant(np.full(rows.shape[:2], FREE_NATS)))),
            "representation_loss": nn.mean(
                nn.maximum(representation, nn.constant(np.full(rows.shape[:2], FREE_NATS)))
            ),
        }  # fmt: skip
        predicted = parts["decoder_loss"] + parts["reward_loss"] + parts["continue_loss"]
        total = PREDICTION * predicted + DYNAMICS * parts["dynamics_loss"]
        total = total + REPRESENTATION * parts["representation_loss"]
        kept = {FEATURES: nn.to_numpy(features), "kl": nn.mean(nn.stop_gradient(dynamics))}
        return total, {**parts, **kept, "world_model_loss": total}

    return loss


def critic_loss() -> Loss:
    """Return how unlikely returns are by the critic's distributions, and what its slow copy expects (equation 7)."""

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        logits = cast(DreamerNetworks, module).critic(nn, parameters, nn.constant(batch[FEATURES]))
        weights = nn.constant(batch[WEIGHTS])
        total = nn.mean(weights * two_hot_loss(nn, logits, batch[VALUE_BINS] + batch[SLOW_BINS]))
        return total, {"critic_loss": total}

    return loss


def actor_loss(distribution: Distribution, entropy_scale: float) -> Loss:
    """Return -mean w (A log pi(a|s) + eta H): REINFORCE with scaled advantages, and entropy (equation 11).

    Args:
        distribution: The policy's.
        entropy_scale: eta.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        inputs = cast(DreamerNetworks, module).choices(nn, parameters, nn.constant(batch[FEATURES]))
        actions = nn.constant(batch[columns.ACTIONS])
        log_probs, entropies = distribution.log_prob_and_entropy(nn, inputs, actions)
        weights, advantages = nn.constant(batch[WEIGHTS]), nn.constant(batch[columns.ADVANTAGES])
        total = -nn.mean(weights * (advantages * log_probs + entropy_scale * entropies))
        return total, {"actor_loss": total, "entropy": nn.mean(nn.stop_gradient(entropies))}

    return loss


def _divergence(nn: Ops, first: Any, second: Any) -> Any:
    """Return the KL divergence of categorical distributions [T, B, C, K], summed over all C: [T, B]."""
    return nn.sum(first * (nn.log(first) - nn.log(second)), axis=(-2, -1))
