"""Q-learning by implicit quantiles (IQN, arXiv 1806.06923): embeddings of levels, losses, and measures of risk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.testing.reference.distributional_q_learning import Cube, DistributionalLosses
from kernel_rllib.testing.reference.rows import Rows, reduce


def level_embedding(level: float, weight: NDArray[np.float64], bias: Sequence[float]) -> list[float]:
    """Return phi(level): equation 4. `weight` is [cosines, features], `bias` [features]."""
    found = []
    for feature, offset in enumerate(bias):
        total = sum(math.cos(math.pi * i * level) * weight[i, feature] for i in range(len(weight)))
        found.append(max(0.0, total + offset))
    return found


def implicit_quantile_loss(
    quantiles: Cube, actions: Sequence[int], levels: Rows, targets: Rows, weights: Rows, kappa: float
) -> DistributionalLosses:
    """Return the loss of equation 3.

    Args:
        quantiles: [N, actions, levels] of the network that learns.
        actions: those taken.
        levels: what they are quantiles at, [N, levels].
        targets: [N, targets], quantiles after the step, discounted, plus the reward.
        weights: importance-sampling weights.
        kappa: up to where the loss is a square; 0: it is |error|.
    """
    rows = np.zeros(len(quantiles))
    for row, action in enumerate(actions):
        for i, level in enumerate(levels[row]):
            for target in targets[row]:
                error = target - quantiles[row, action, i]
                size = abs(error)
                if kappa:
                    size = (0.5 * error * error if size <= kappa else kappa * (size - 0.5 * kappa)) / kappa
                rows[row] += abs(level - (error < 0)) * size / len(targets[row])
    return DistributionalLosses(reduce(rows * weights), rows)


def distorted_level(measure: str, eta: float, level: float) -> float:
    """Return what a measure of risk makes of a level, by the list of the paper."""
    if measure == "CVaR":
        return eta * level
    if measure == "CPW":
        chances = math.pow(level, eta), math.pow(1 - level, eta)
        return chances[0] / math.pow(sum(chances), 1 / eta)
    if measure == "Wang":
        normal = NormalDist()
        return normal.cdf(normal.inv_cdf(level) + eta)
    exponent = 1 / (1 + abs(eta))
    return math.pow(level, exponent) if eta >= 0 else 1 - math.pow(1 - level, exponent)
