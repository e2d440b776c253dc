"""The losses of Dreamer (Hafner et al. 2019, arXiv 1912.01603): of the dynamics, the actor and the critic."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss
from kernel_rllib.modules.latent_dynamics import LatentDynamics
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.streams import FIRSTS

FEATURES, NOISE, ACTION_NOISE, WEIGHTS = "features", "state_noise", "action_noise", "weights"
"""Columns of batches: h beside z, what z and actions are drawn by, and how much steps count."""


def world_loss(kl_coeff: float, free_nats: float) -> Loss:
    """Return how far observations and rewards are off, half squared, and the divergence of posterior from prior.

    (Equation 10 of the paper.) All are means over steps; a divergence below `free_nats` counts as that.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        networks, rows = cast(LatentDynamics, module), batch[columns.OBS]
        h, z, (mean, std) = networks.observe(nn, parameters, rows, batch[FIRSTS], batch[NOISE])
        prior_mean, prior_std = networks.imagined(nn, parameters, h)
        features = nn.concat([h, z])
        observed, _, rewards = networks.split(rows)
        off = nn.square(networks.decoder(nn, parameters, features) - nn.constant(observed))
        error = 0.5 * nn.mean(nn.sum(off, axis=-1))
        reward = 0.5 * nn.mean(nn.square(networks.reward(nn, parameters, features)[..., 0] - nn.constant(rewards)))
        ratio = std / prior_std
        away = (mean - prior_mean) / prior_std
        kl = nn.mean(nn.sum(0.5 * (nn.square(ratio) + nn.square(away) - 1.0) - nn.log(ratio), axis=-1))
        total = error + reward + kl_coeff * nn.maximum(kl, nn.constant(np.float64(free_nats)))
        parts = {"decoder_loss": error, "reward_loss": reward, "divergence": kl, "world_model_loss": total}
        return total, {**parts, FEATURES: nn.to_numpy(features)}

    return loss


def actor_loss(distribution: Distribution, gamma: float, lambda_: float) -> Loss:
    """Return the negative mean of V(lambda) in what the dynamics imagine (equations 6 and 7); gradients go through it.

    Args:
        distribution: The distribution of actions, which have gradients.
        gamma: The discount.
        lambda_: The decay of returns, from 0 to 1: at 0 the value of the next state counts, at 1 all imagined rewards.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        networks, starts = cast(LatentDynamics, module), batch[FEATURES]
        size = networks.sizes.deter_size
        h, z = nn.constant(starts[:, :size]), nn.constant(starts[:, size:])
        features: list[Any] = []
        for step in range(batch[NOISE].shape[1]):
            inputs = networks.choices(nn, parameters, nn.concat([h, z]))
            action = distribution.sample(nn, inputs, nn.constant(batch[ACTION_NOISE][:, step]))
            h = networks.recurrent(nn, parameters, h, z, action)
            mean, std = networks.imagined(nn, parameters, h)
            z = mean + std * nn.constant(batch[NOISE][:, step])
            features.append(nn.concat([h, z]))
        whole = nn.stack(features)
        rewards = networks.reward(nn, parameters, whole)[..., 0]
        values = networks.critic(nn, parameters, whole)[..., 0]
        steps = len(features) - 1
        after = values[steps]
        returns: list[Any] = []
        for t in range(steps - 1, -1, -1):
            mixed = (1.0 - lambda_) * values[t + 1] + lambda_ * after
            after = rewards[t] + gamma * mixed
            returns.insert(0, after)
        found = nn.stack(returns)
        weights = (gamma ** np.arange(steps))[:, None]
        total = -nn.mean(found * nn.constant(np.broadcast_to(weights, found.shape)))
        kept = {FEATURES: nn.to_numpy(whole[:steps]), columns.VALUE_TARGETS: nn.to_numpy(found)}
        told = {"imagined_reward_mean": nn.mean(nn.stop_gradient(rewards)), "imagined_return_mean": -total}
        return total, {"actor_loss": total, **told, **kept}

    return loss


def critic_loss() -> Loss:
    """Return half the squared error of values against V(lambda), weighed (equation 8)."""

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        values = cast(LatentDynamics, module).critic(nn, parameters, nn.constant(batch[FEATURES]))[..., 0]
        errors = nn.square(values - nn.constant(batch[columns.VALUE_TARGETS]))
        total = 0.5 * nn.mean(nn.constant(batch[WEIGHTS]) * errors)
        return total, {"critic_loss": total, "value_mean": nn.mean(nn.stop_gradient(values))}

    return loss
