"""Imitation that is weighed by advantages (MARWIL): Wang et al. 2018, algorithm 1; with beta 0 behaviour cloning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, categorical_terms, softmax


class ImitationLosses(NamedTuple):
    """The loss and its terms."""

    total: float
    policy: float
    value: float


def softmax_imitation_loss(
    logits: Rows, values: Rows, actions: Sequence[int], returns: Rows, *, beta: float, norm: float, vf_coeff: float
) -> ImitationLosses:
    """Return the loss of a softmax policy, whose log-probabilities weigh exp(beta (R - V) / norm), and of its values.

    That of a value is (R - V)^2 / 2. With beta 0 there are no values to learn.
    """
    log_probs = categorical_terms(logits, actions).log_probs
    weights = imitation_weights(values, returns, beta, norm)
    policy = -float(np.mean([log_prob * weight for log_prob, weight in zip(log_probs, weights, strict=True)]))
    value = float(np.mean([0.5 * (r - v) ** 2 for v, r in zip(values, returns, strict=True)])) if beta else 0.0
    return ImitationLosses(policy + vf_coeff * value, policy, value)


def imitation_weights(values: Rows, returns: Rows, beta: float, norm: float) -> list[float]:
    """Return exp(beta (R - V) / norm) of each row."""
    return [float(np.exp(beta * (r - v) / norm)) for v, r in zip(values, returns, strict=True)]


def softmax_imitation_gradients(
    logits: Rows, values: Rows, actions: Sequence[int], returns: Rows, *, beta: float, norm: float, vf_coeff: float
) -> tuple[Rows, Rows]:
    """Return its gradients by the logits, w (pi - one_hot(a)) / N, and by the values, vf_coeff (V - R) / N."""
    count = len(logits)
    by_logits, by_values = np.zeros_like(logits), np.zeros_like(values)
    for row, weight in enumerate(imitation_weights(values, returns, beta, norm)):
        by_logits[row] = softmax(logits[row])
        by_logits[row, actions[row]] -= 1
        by_logits[row] *= weight / count
        by_values[row] = vf_coeff * (values[row] - returns[row]) / count if beta else 0.0
    return by_logits, by_values
