"""Parts that the losses share: means over rows, and the terms of a policy's distribution, one row at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float64]
Rows = NDArray[np.float64]
"""[N] or [N, width]."""
Valid = Sequence[bool] | NDArray[np.bool_] | None
"""The rows that count; None: all."""
Reduction = Literal["mean", "sum"]


def reduce(values: Sequence[float] | Rows, valid: Valid = None, reduction: Reduction = "mean") -> float:
    """Return the mean, or the sum, of the rows that count."""
    counted = [float(value) for row, value in enumerate(values) if valid is None or valid[row]]
    total = math.fsum(counted)
    return total / len(counted) if reduction == "mean" else total


def huber(error: float, threshold: float = 1.0) -> float:
    """Return half the square of an error up to the threshold, and grow linearly beyond: Huber 1964."""
    if abs(error) <= threshold:
        return 0.5 * error * error
    return threshold * (abs(error) - 0.5 * threshold)


def log_softmax(logits: Row) -> Row:
    """Return the logarithms of the probabilities that logits stand for."""
    highest = max(logits)
    total = math.fsum(math.exp(logit - highest) for logit in logits)
    return np.array([logit - highest - math.log(total) for logit in logits])


def softmax(logits: Row) -> Row:
    """Return the probabilities that logits stand for."""
    return np.exp(log_softmax(logits))


class PolicyTerms(NamedTuple):
    """The terms of a policy's distribution that a loss takes, a number a row."""

    log_probs: Rows
    """The log-probability of the action taken."""
    entropies: Rows
    divergences: Rows
    """From the older distribution to this one: the mean under the older of log p(older) - log p(this)."""


def categorical_terms(logits: Rows, actions: Sequence[int], old_logits: Rows | None = None) -> PolicyTerms:
    """Return the terms of a softmax policy with logits [N, actions]; without older logits, divergences are 0."""
    count = len(logits)
    result = PolicyTerms(np.zeros(count), np.zeros(count), np.zeros(count))
    for row in range(count):
        logs = log_softmax(logits[row])
        result.log_probs[row] = logs[actions[row]]
        result.entropies[row] = -math.fsum(math.exp(log) * log for log in logs)
        if old_logits is not None:
            old_logs = log_softmax(old_logits[row])
            terms = (math.exp(old) * (old - log) for old, log in zip(old_logs, logs, strict=True))
            result.divergences[row] = math.fsum(terms)
    return result


def gaussian_terms(inputs: Rows, actions: Rows, old_inputs: Rows | None = None) -> PolicyTerms:
    """Return the terms of a diagonal gaussian policy with inputs [N, 2 d]: means, then logarithms of deviations."""
    count, size = len(inputs), inputs.shape[1] // 2
    result = PolicyTerms(np.zeros(count), np.zeros(count), np.zeros(count))
    for row in range(count):
        for i in range(size):
            mean, log_std = inputs[row, i], inputs[row, size + i]
            std = math.exp(log_std)
            z = (actions[row, i] - mean) / std
            result.log_probs[row] += -0.5 * z * z - log_std - 0.5 * math.log(2 * math.pi)
            result.entropies[row] += log_std + 0.5 * math.log(2 * math.pi * math.e)
            if old_inputs is not None:
                old_mean, old_log_std = old_inputs[row, i], old_inputs[row, size + i]
                old_variance = math.exp(2 * old_log_std)
                distance = old_variance + (old_mean - mean) ** 2
                result.divergences[row] += log_std - old_log_std + distance / (2 * std * std) - 0.5
    return result
