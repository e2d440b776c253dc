"""MAML in plain float64: Finn et al. 2017, arXiv 1703.03400, for a linear Gaussian policy and a linear value.

Everything is written out for one policy, a normal distribution with mean W s + b and standard deviation exp(log_std),
and one value, w s + c; gradients of the steps of adaptation are formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array

Policy = dict[str, Array]
"""`weight` [S, A], `bias` [A], `log_std` [A], `value_weight` [S], `value_bias` []."""


def log_probability(policy: Mapping[str, Array], obs: Array, action: Array) -> float:
    """Return log pi(a | s) of the policy."""
    total = 0.0
    for k in range(len(action)):
        mean = float(obs @ policy["weight"][:, k] + policy["bias"][k])
        z = (action[k] - mean) / np.exp(policy["log_std"][k])
        total += -0.5 * z * z - policy["log_std"][k] - 0.5 * np.log(2 * np.pi)
    return float(total)


def adaptation_gradient(policy: Mapping[str, Array], steps: Sequence[Mapping[str, Any]], weight: float) -> Policy:
    """Return the gradient of mean( -r A + weight (V - R)^2 ) (equation 4), r = pi / pi_old, term by term."""
    found = {name: np.zeros_like(value) for name, value in policy.items()}
    for step in steps:
        obs, action = step["obs"], step["action"]
        ratio = np.exp(log_probability(policy, obs, action) - step["logp"])
        for k in range(len(action)):
            mean = float(obs @ policy["weight"][:, k] + policy["bias"][k])
            variance = np.exp(2 * policy["log_std"][k])
            by_mean = (action[k] - mean) / variance
            share = -ratio * step["advantage"] / len(steps)
            found["weight"][:, k] += share * by_mean * obs
            found["bias"][k] += share * by_mean
            found["log_std"][k] += share * ((action[k] - mean) ** 2 / variance - 1)
        error = float(obs @ policy["value_weight"] + policy["value_bias"]) - step["target"]
        found["value_weight"] += weight * 2 * error * obs / len(steps)
        found["value_bias"] += weight * 2 * error / len(steps)
    return found


def adapted(policy: Mapping[str, Array], steps: Sequence[Mapping[str, Any]], rate: float, weight: float) -> Policy:
    """Return the policy after one step of adaptation (equation 1)."""
    gradient = adaptation_gradient(policy, steps, weight)
    return {name: value - rate * gradient[name] for name, value in policy.items()}


def outer_loss(policy: Mapping[str, Array], steps: Sequence[Mapping[str, Any]], weight: float, clip: float) -> float:
    """Return mean( -min(r A, clip(r) A) + weight (V - R)^2 ): PPO's loss of an adapted policy."""
    total = 0.0
    for step in steps:
        ratio = np.exp(log_probability(policy, step["obs"], step["action"]) - step["logp"])
        bounded = min(max(ratio, 1 - clip), 1 + clip)
        error = float(step["obs"] @ policy["value_weight"] + policy["value_bias"]) - step["target"]
        total += -min(ratio * step["advantage"], bounded * step["advantage"]) + weight * error**2
    return total / len(steps)


def distance(policy: Mapping[str, Array], old: Sequence[tuple[Array, Array, Array]]) -> float:
    """Return the mean KL divergence of the policy from normal distributions: (obs, mean, log_std) of each step."""
    total = 0.0
    for obs, mean, log_std in old:
        for k in range(len(mean)):
            now, own = float(obs @ policy["weight"][:, k] + policy["bias"][k]), policy["log_std"][k]
            total += own - log_std[k] + (np.exp(2 * log_std[k]) + (mean[k] - now) ** 2) / (2 * np.exp(2 * own)) - 0.5
    return total / len(old)
