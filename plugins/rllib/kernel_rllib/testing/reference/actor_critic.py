"""Advantage actor-critic (A2C, A3C): Mnih et al. 2016, arXiv 1602.01783."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernel_rllib.testing.reference.rows import (
    Reduction,
    Rows,
    Valid,
    categorical_terms,
    log_softmax,
    reduce,
)


class ActorCriticLosses(NamedTuple):
    """The loss and its terms."""

    total: float
    policy: float
    value: float
    entropy: float


def actor_critic_loss(
    log_probs: Rows,
    entropies: Rows,
    values: Rows,
    advantages: Rows,
    value_targets: Rows,
    *,
    value_coefficient: float = 0.5,
    entropy_coefficient: float = 0.01,
    valid: Valid = None,
    reduction: Reduction = "mean",
) -> ActorCriticLosses:
    """Return the loss whose gradient is that of section 4 (algorithm S3), with the entropy term of that section.

    The policy's part is -log pi(a | s) A, the value's part half the square of (target - V(s)).
    """
    policy = reduce([-log_prob * a for log_prob, a in zip(log_probs, advantages, strict=True)], valid, reduction)
    errors = zip(values, value_targets, strict=True)
    value = reduce([0.5 * (target - v) ** 2 for v, target in errors], valid, reduction)
    entropy = reduce(entropies, valid, reduction)
    total = policy + value_coefficient * value - entropy_coefficient * entropy
    return ActorCriticLosses(total, policy, value, entropy)


def softmax_actor_critic_loss(
    logits: Rows, values: Rows, actions: Sequence[int], advantages: Rows, value_targets: Rows, **options: float
) -> ActorCriticLosses:
    """Return the same from the logits [N, actions] of a softmax policy; `options` are those of `actor_critic_loss`."""
    terms = categorical_terms(logits, actions)
    losses: ActorCriticLosses = actor_critic_loss(
        terms.log_probs,
        terms.entropies,
        values,
        advantages,
        value_targets,
        **options,  # type: ignore[arg-type]
    )
    return losses


def softmax_entropy_gradient(logits: Rows) -> Rows:
    """Return the gradient of each row's entropy by its logits: -pi (log pi + H)."""
    gradient = np.zeros_like(logits)
    for row in range(len(logits)):
        logs = log_softmax(logits[row])
        probabilities = np.exp(logs)
        gradient[row] = -probabilities * (logs - float(np.dot(probabilities, logs)))
    return gradient
