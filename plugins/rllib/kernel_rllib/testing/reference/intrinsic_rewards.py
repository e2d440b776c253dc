"""Rewards for what is new as their papers write them, one step after another, in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, log_softmax


def curiosity_losses(foreseen: Rows, features: Rows, guesses: Rows, actions: Rows, beta: float) -> tuple[Rows, float]:
    """Return each step's forward error (equation 5 of arXiv 1705.05363), and the loss (equation 7).

    Args:
        foreseen: The features [N, F] that were foreseen.
        features: Those that came [N, F].
        guesses: The logits of guessed actions [N, A].
        actions: The actions that were done [N].
        beta: How much of the loss is that of foreseeing.
    """
    errors = np.array([0.5 * math.fsum((a - b) ** 2) for a, b in zip(foreseen, features, strict=True)])
    inverse = [-log_softmax(row)[action] for row, action in zip(guesses, actions, strict=True)]
    count = len(errors)
    return errors, (1 - beta) * math.fsum(inverse) / count + beta * math.fsum(errors) / count


def distillation_errors(learned: Rows, fixed: Rows) -> Rows:
    """Return each step's mean squared difference of two networks' features [N] (arXiv 1810.12894, section 2.2)."""
    return np.array([math.fsum((a - b) ** 2) / len(a) for a, b in zip(learned, fixed, strict=True)])


def dense(weights: Mapping[str, Rows], name: str, rows: Rows, *, activation: str | None = None) -> Rows:
    """Return a layer's results for rows [N, inputs]."""
    found = rows @ np.asarray(weights[f"{name}/weight"], np.float64) + np.asarray(weights[f"{name}/bias"], np.float64)
    return np.maximum(found, 0) if activation == "relu" else np.tanh(found) if activation == "tanh" else found


def deviation_of_returns(errors: Rows, gamma: float) -> float:
    """Return the sample deviation of running returns [T, L], which go on past the ends of episodes (section 2.4)."""
    found: list[float] = []
    for lane in range(errors.shape[1]):
        total = 0.0
        for error in errors[:, lane]:
            total = gamma * total + float(error)
            found.append(total)
    mean = math.fsum(found) / len(found)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (len(found) - 1))
