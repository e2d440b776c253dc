"""Truncated quantile critics (TQC, arXiv 2005.04269): targets and losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, reduce


def truncated_targets(
    next_quantiles: Sequence[Rows],
    next_log_probs: Rows,
    rewards: Rows,
    discounts: Rows,
    alpha: float,
    dropped: int,
) -> Rows:
    """Return y_i = r + discount (z_(i) - alpha log pi(a' | s')) for the lowest atoms of all critics: equation 11.

    Args:
        next_quantiles: of each critic's copy [N, count], at next actions that were drawn from the policy.
        next_log_probs: of these actions [N].
        rewards: [N].
        discounts: gamma [N], or 0 after a step that terminated.
        alpha: the temperature.
        dropped: how many atoms are dropped for each critic.
    """
    count = next_quantiles[0].shape[1]
    kept = len(next_quantiles) * (count - dropped)
    targets = np.zeros((len(rewards), kept))
    for row in range(len(rewards)):
        atoms = sorted(float(atom) for critic in next_quantiles for atom in critic[row])
        for i in range(kept):
            targets[row, i] = rewards[row] + discounts[row] * (atoms[i] - alpha * next_log_probs[row])
    return targets


def critics_loss(quantiles: Sequence[Rows], targets: Rows, weights: Rows) -> float:
    """Return the sum over critics of the weighed means of 1/(M K) sum over atoms and targets of rho(y_i - z_m)."""
    total = 0.0
    for critic in quantiles:
        rows = np.zeros(len(critic))
        count = critic.shape[1]
        for row in range(len(critic)):
            for m in range(count):
                level = (2 * m + 1) / (2 * count)
                for target in targets[row]:
                    error = target - critic[row, m]
                    size = 0.5 * error * error if abs(error) <= 1 else abs(error) - 0.5
                    rows[row] += abs(level - (error < 0)) * size / (count * len(targets[row]))
        total += reduce(rows * weights)
    return total


def policy_loss(log_probs: Rows, quantiles: Sequence[Rows], alpha: float) -> float:
    """Return the mean of alpha log pi(a | s) - 1/(N M) times the sum of all atoms of all critics at a."""
    losses = []
    for row, log_prob in enumerate(log_probs):
        atoms = [float(atom) for critic in quantiles for atom in critic[row]]
        losses.append(alpha * log_prob - sum(atoms) / len(atoms))
    return reduce(losses)
