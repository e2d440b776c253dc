"""Deterministic policy gradients: Lillicrap et al. 2016 (DDPG, arXiv 1509.02971) and Fujimoto et al. 2018 (TD3, arXiv
1802.09477)."""

from __future__ import annotations

import math

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, huber, reduce


def critic_targets(next_values: Rows, rewards: Rows, discounts: Rows, other_next_values: Rows | None = None) -> Rows:
    """Return r + discount Q'(s', mu'(s')): algorithm 1 of DDPG; of two critics the lower one (TD3, equation 10).

    All are [N]; discounts are gamma^n, and 0 after a step that terminated.
    """
    targets = np.zeros(len(rewards))
    for row in range(len(rewards)):
        value = next_values[row]
        if other_next_values is not None:
            value = min(value, other_next_values[row])
        targets[row] = rewards[row] + discounts[row] * value
    return targets


def critic_loss(
    values: Rows,
    targets: Rows,
    other_values: Rows | None = None,
    weights: Rows | None = None,
    huber_threshold: float | None = None,
) -> float:
    """Return the mean of the squares of Q(s, a) - target (both critics' added up), or of their Huber losses."""
    losses = np.zeros(len(values))
    for critic in (values, other_values):
        if critic is not None:
            for row, target in enumerate(targets):
                error = critic[row] - target
                losses[row] += error * error if huber_threshold is None else huber(error, huber_threshold)
    return reduce(losses if weights is None else losses * weights)


def actor_loss(values: Rows) -> float:
    """Return minus the mean of Q(s, mu(s)), whose gradient is that of DDPG's equation 6 with the sign turned."""
    return -reduce(values)


def actor_gradient(value_slopes: Rows) -> Rows:
    """Return the gradient of `actor_loss` by the actions mu(s) [N, d], from the slopes dQ/da: -dQ/da / N."""
    return -np.asarray(value_slopes) / len(value_slopes)


def smoothed_target_actions(actions: Rows, noise: Rows, limit: float, low: Rows, high: Rows) -> Rows:
    """Return mu'(s') + clip(noise, -limit, limit), kept between the bounds [d]: TD3, section 5.3 and algorithm 1."""
    result = np.zeros_like(actions)
    for row, i in np.ndindex(*actions.shape):
        moved = actions[row, i] + min(max(noise[row, i], -limit), limit)
        result[row, i] = min(max(moved, low[i]), high[i])
    return result


def soft_update(target: Rows, online: Rows, tau: float) -> Rows:
    """Return tau online + (1 - tau) target, component by component: the last lines of both algorithms."""
    return np.array([tau * new + (1 - tau) * old for old, new in zip(target, online, strict=True)])


def ornstein_uhlenbeck(noise: Rows, normals: Rows, theta: float, sigma: float, step: float = 1.0) -> Rows:
    """Return the next noise: noise - theta noise step + sigma sqrt(step) normal (DDPG, section 7)."""
    scale = sigma * math.sqrt(step)
    return np.array([x - theta * x * step + scale * z for x, z in zip(noise, normals, strict=True)])
