"""Critics that see all agents: Lowe et al. 2017 (MADDPG, arXiv 1706.02275), equations 5 and 6."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernel_rllib.testing.reference.rows import Rows


def network(rows: Rows, layers: Sequence[tuple[Rows, Rows]]) -> Rows:
    """Return what dense layers give [N, out], each a weight [in, out] and a bias [out], with tanh between them."""
    for place, (weight, bias) in enumerate(layers):
        rows = rows @ weight + bias
        if place < len(layers) - 1:
            rows = np.tanh(rows)
    return rows


def central_targets(rewards: Rows, discounts: Rows, next_values: Rows) -> Rows:
    """Return y = r_i + gamma Q_i'(x', a_1', .., a_N') [N], where the latter are `next_values` [N]: equation 6."""
    return np.array([rewards[row] + discounts[row] * next_values[row] for row in range(len(rewards))])


def critic_loss(values: Rows, targets: Rows) -> float:
    """Return the mean of the squares of Q_i(x, a_1, .., a_N) - y: equation 6."""
    return math.fsum((value - target) ** 2 for value, target in zip(values, targets, strict=True)) / len(values)


def gumbel_softmax(logits: Rows, uniforms: Rows, temperature: float = 1.0) -> Rows:
    """Return draws as parts [N, A] that sum up to 1: equation 1 of Jang et al. 2017, arXiv 1611.01144."""
    result = np.zeros(logits.shape)
    for row in range(len(logits)):
        noisy = [
            (logit - math.log(-math.log(uniform))) / temperature
            for logit, uniform in zip(logits[row], uniforms[row], strict=True)
        ]
        highest = max(noisy)
        parts = [math.exp(each - highest) for each in noisy]
        result[row] = [part / math.fsum(parts) for part in parts]
    return result


def policy_loss(values: Rows, given: Rows, regularisation: float) -> float:
    """Return minus the mean of Q_i, and the mean of the squares of what the policy gives, weighed: equation 5."""
    squares = math.fsum(float(number) ** 2 for number in given.ravel()) / given.size
    return -math.fsum(values) / len(values) + regularisation * squares
