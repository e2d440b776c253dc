"""Imitation by weights that values give: CRR (arXiv 2006.15134) and IQL (arXiv 2110.06169)."""

from __future__ import annotations

import math

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, reduce


def advantages_over(recorded: Rows, others: Rows, kind: str) -> Rows:
    """Return Q(s, a) - mean or max over j of Q(s, a_j): section 3 of CRR. `recorded` are [N], `others` [N, M]."""
    found = np.zeros(len(recorded))
    for row in range(len(recorded)):
        found[row] = recorded[row] - (max(others[row]) if kind == "max" else math.fsum(others[row]) / len(others[row]))
    return found


def weights_of(advantages: Rows, kind: str, temperature: float = 1.0, most: float = math.inf) -> Rows:
    """Return 1 where A > 0 ("bin"), or exp(A / temperature), but not more than `most` ("exp")."""
    found = np.zeros(len(advantages))
    for row, advantage in enumerate(advantages):
        found[row] = float(advantage > 0) if kind == "bin" else min(math.exp(advantage / temperature), most)
    return found


def weighted_imitation_loss(log_probs: Rows, weights: Rows) -> float:
    """Return minus the mean of f(A) log pi(a | s): equation 1 of CRR, equation 7 of IQL."""
    return -reduce([weight * log_prob for weight, log_prob in zip(weights, log_probs, strict=True)])


def expectile_loss(values: Rows, targets: Rows, expectile: float) -> float:
    """Return the mean of |expectile - 1(u < 0)| u^2 for u = target - value: equations 4 and 5 of IQL."""
    losses = []
    for value, target in zip(values, targets, strict=True):
        error = float(target - value)
        losses.append(abs(expectile - float(error < 0)) * error * error)
    return reduce(losses)
