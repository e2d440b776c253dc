"""Q-learning of distributions: atoms (C51, arXiv 1707.06887) and quantiles (QR-DQN, arXiv 1710.10044)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.testing.reference.returns import project_categorical
from kernel_rllib.testing.reference.rows import Rows, log_softmax, reduce, softmax

Cube = NDArray[np.float64]
"""[N, actions, atoms or quantiles]."""


class DistributionalLosses(NamedTuple):
    """The loss, and the losses of rows, which priorities are made of."""

    total: float
    rows: Rows


def categorical_means(logits: Cube, v_min: float, v_max: float) -> Rows:
    """Return Q [N, actions]: the means of the distributions over the atoms."""
    count, actions, atoms = logits.shape
    result = np.zeros((count, actions))
    for row, action in np.ndindex(count, actions):
        for atom, probability in enumerate(softmax(logits[row, action])):
            result[row, action] += probability * (v_min + atom * (v_max - v_min) / (atoms - 1))
    return result


def categorical_targets(
    next_target_logits: Cube,
    rewards: Rows,
    discounts: Rows,
    v_min: float,
    v_max: float,
    next_online_logits: Cube | None = None,
) -> Rows:
    """Return the projected distribution [N, atoms] of each row by algorithm 1.

    The next action is the best by the target network's means, or by those of the network that learns, if given.
    """
    chooser = next_target_logits if next_online_logits is None else next_online_logits
    best = categorical_means(chooser, v_min, v_max).argmax(1)
    chosen = np.array([softmax(next_target_logits[row, action]) for row, action in enumerate(best)])
    return project_categorical(chosen, rewards, discounts, v_min, v_max)


def categorical_loss(
    logits: Cube, actions: Sequence[int], targets: Rows, weights: Rows | None = None
) -> DistributionalLosses:
    """Return the mean of the weighed cross entropies -sum m log p: the last line of algorithm 1."""
    rows = np.zeros(len(logits))
    for row, action in enumerate(actions):
        rows[row] = -math.fsum(targets[row] * log_softmax(logits[row, action]))
    return DistributionalLosses(reduce(rows if weights is None else rows * weights), rows)


def categorical_loss_gradient(logits: Cube, actions: Sequence[int], targets: Rows, weights: Rows | None = None) -> Cube:
    """Return its gradient by the logits: (p - m) / N, weighed, of the action taken, where the targets sum to 1."""
    gradient = np.zeros_like(logits)
    for row, action in enumerate(actions):
        share = (1.0 if weights is None else weights[row]) / len(logits)
        gradient[row, action] = (softmax(logits[row, action]) - targets[row]) * share
    return gradient


def quantile_loss(
    quantiles: Cube, actions: Sequence[int], targets: Rows, weights: Rows | None = None, kappa: float = 1.0
) -> DistributionalLosses:
    """Return the quantile Huber loss: equations 9 and 10 of arXiv 1710.10044, by algorithm 1.

    Args:
        quantiles: [N, actions, count] of the network that learns.
        actions: those taken.
        targets: [N, target count], quantiles after the step, discounted, plus the reward.
        weights: importance-sampling weights; None: 1.
        kappa: up to where the loss is a square; the loss is divided by it, as in later papers, so that smaller ones
            come near to 0, which is equation 8's loss.
    """
    count = quantiles.shape[2]
    rows = np.zeros(len(quantiles))
    for row, action in enumerate(actions):
        for i in range(count):
            level = (2 * i + 1) / (2 * count)  # the midpoints of lemma 2
            for target in targets[row]:
                error = target - quantiles[row, action, i]
                size = abs(error)
                if kappa:
                    size = (0.5 * error * error if size <= kappa else kappa * (size - 0.5 * kappa)) / kappa
                rows[row] += abs(level - (error < 0)) * size / len(targets[row])
    return DistributionalLosses(reduce(rows if weights is None else rows * weights), rows)
