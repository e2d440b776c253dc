"""Proximal policy optimisation: Schulman et al. 2017, arXiv 1707.06347."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from kernel_rllib.testing.reference.rows import Rows, Valid, categorical_terms, gaussian_terms, reduce


class PPOLosses(NamedTuple):
    """The loss and its terms."""

    total: float
    policy: float
    value: float
    kl: float
    entropy: float


def ppo_loss(
    log_probs: Rows,
    old_log_probs: Rows,
    advantages: Rows,
    entropies: Rows,
    divergences: Rows,
    values: Rows,
    old_values: Rows,
    value_targets: Rows,
    *,
    clip: float = 0.2,
    kl_coefficient: float = 0.0,
    value_coefficient: float = 1.0,
    entropy_coefficient: float = 0.0,
    value_clip: float = math.inf,
    value_clip_of: Literal["error", "change"] = "error",
    valid: Valid = None,
) -> PPOLosses:
    """Return the loss, the negative of equation 9 with the penalty of equation 8 beside it.

    Args:
        log_probs: log pi(a | s) of the policy that learns.
        old_log_probs: of the policy that acted.
        advantages: of the actions.
        entropies: of the policy that learns.
        divergences: from the policy that acted to the one that learns.
        values: V(s) of the network that learns.
        old_values: V(s) when the data were collected.
        value_targets: what V(s) is drawn to.
        clip: epsilon of equation 7.
        kl_coefficient: beta of equation 8.
        value_coefficient: c1 of equation 9.
        entropy_coefficient: c2 of equation 9.
        value_clip: how large a squared error counts (`value_clip_of="error"`: beyond it there is no gradient), or how
            far V(s) may move from its old value before moving on no longer helps (`"change"`: the larger one of the
            squared errors of V(s) and of the old value moved by at most this).
        value_clip_of: which of the two.
        valid: which rows count; None: all.
    """
    surrogates, squares = [], []
    for row in range(len(log_probs)):
        ratio = math.exp(log_probs[row] - old_log_probs[row])
        clipped = min(max(ratio, 1 - clip), 1 + clip)
        surrogates.append(min(ratio * advantages[row], clipped * advantages[row]))  # equation 7
        square = (values[row] - value_targets[row]) ** 2
        if value_clip_of == "error":
            square = min(square, value_clip)
        else:
            moved = min(max(values[row] - old_values[row], -value_clip), value_clip)
            square = max(square, (old_values[row] + moved - value_targets[row]) ** 2)
        squares.append(square)
    policy = -reduce(surrogates, valid)
    value, kl, entropy = reduce(squares, valid), reduce(divergences, valid), reduce(entropies, valid)
    total = policy + value_coefficient * value + kl_coefficient * kl - entropy_coefficient * entropy
    return PPOLosses(total, policy, value, kl, entropy)


def softmax_ppo_loss(
    logits: Rows,
    values: Rows,
    actions: Sequence[int],
    old_logits: Rows,
    old_values: Rows,
    advantages: Rows,
    value_targets: Rows,
    **options: Any,
) -> PPOLosses:
    """Return the same from the logits [N, actions] of softmax policies; `options` are those of `ppo_loss`."""
    old = categorical_terms(old_logits, actions).log_probs
    new = categorical_terms(logits, actions, old_logits)
    parts = (new.log_probs, old, advantages, new.entropies, new.divergences)
    return ppo_loss(*parts, values, old_values, value_targets, **options)


def gaussian_ppo_loss(
    inputs: Rows,
    values: Rows,
    actions: Rows,
    old_inputs: Rows,
    old_values: Rows,
    advantages: Rows,
    value_targets: Rows,
    **options: Any,
) -> PPOLosses:
    """Return the same from the inputs [N, 2 d] of gaussian policies: means, then logarithms of deviations."""
    old = gaussian_terms(old_inputs, actions).log_probs
    new = gaussian_terms(inputs, actions, old_inputs)
    parts = (new.log_probs, old, advantages, new.entropies, new.divergences)
    return ppo_loss(*parts, values, old_values, value_targets, **options)


def next_kl_coefficient(coefficient: float, kl: float, target: float) -> float:
    """Return the coefficient after an update, by section 4's idea with RLlib's numbers: 1.5 and 2, a half and a half.

    It grows by half where the divergence was over twice the target, and is halved where it was under half of it.
    """
    if kl > 2 * target:
        return coefficient * 1.5
    if kl < 0.5 * target:
        return coefficient * 0.5
    return coefficient
