"""Policy gradient (REINFORCE): Williams 1992, Simple statistical gradient-following algorithms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_rllib.testing.reference.rows import Reduction, Rows, Valid, categorical_terms, reduce, softmax


def policy_gradient_loss(log_probs: Rows, returns: Rows, valid: Valid = None, reduction: Reduction = "mean") -> float:
    """Return minus the mean of log pi(a | s) G, whose gradient is that of theorem 1 with the sign turned."""
    return reduce([-log_prob * g for log_prob, g in zip(log_probs, returns, strict=True)], valid, reduction)


def softmax_policy_gradient_loss(logits: Rows, actions: Sequence[int], returns: Rows) -> float:
    """Return the same from the logits [N, actions] of a softmax policy."""
    return policy_gradient_loss(categorical_terms(logits, actions).log_probs, returns)


def softmax_policy_gradient(logits: Rows, actions: Sequence[int], returns: Rows) -> Rows:
    """Return its gradient by the logits: (pi - one_hot(a)) G / N (Sutton and Barto, equation 13.9)."""
    gradient = np.zeros_like(logits)
    for row, action in enumerate(actions):
        gradient[row] = softmax(logits[row])
        gradient[row, action] -= 1
        gradient[row] *= returns[row] / len(logits)
    return gradient
