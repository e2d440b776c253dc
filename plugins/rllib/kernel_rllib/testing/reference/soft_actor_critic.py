"""Soft actor-critic: Haarnoja et al. 2018, arXiv 1812.05905; for discrete actions Christodoulou 2019, arXiv
1910.07207."""

from __future__ import annotations

import math

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, huber, log_softmax, reduce


def soft_q_targets(
    next_values: Rows, other_next_values: Rows, next_log_probs: Rows, rewards: Rows, discounts: Rows, alpha: float
) -> Rows:
    """Return r + discount (min of both Q - alpha log pi) of an action drawn after the step: equations 3 and 5.

    All are [N]; discounts are gamma^n, and 0 after a step that terminated.
    """
    targets = np.zeros(len(rewards))
    for row in range(len(rewards)):
        soft = min(next_values[row], other_next_values[row]) - alpha * next_log_probs[row]
        targets[row] = rewards[row] + discounts[row] * soft
    return targets


def soft_q_loss(
    values: Rows, targets: Rows, weights: Rows | None = None, huber_threshold: float | None = None
) -> float:
    """Return the mean of half the squares of Q(s, a) - target (equation 5), or of their Huber losses."""
    limit = math.inf if huber_threshold is None else huber_threshold
    losses = np.array([huber(value - target, limit) for value, target in zip(values, targets, strict=True)])
    return reduce(losses if weights is None else losses * weights)


def soft_policy_loss(log_probs: Rows, values: Rows, other_values: Rows, alpha: float) -> float:
    """Return the mean of alpha log pi(a | s) - min of both Q(s, a), for actions drawn from pi: equation 9."""
    rows = zip(log_probs, values, other_values, strict=True)
    return reduce([alpha * log_prob - min(value, other) for log_prob, value, other in rows])


def temperature_loss(log_alpha: float, log_probs: Rows, target_entropy: float) -> float:
    """Return the mean of -alpha (log pi(a | s) + target entropy): equation 18."""
    return reduce([-math.exp(log_alpha) * (log_prob + target_entropy) for log_prob in log_probs])


def log_temperature_loss(log_alpha: float, log_probs: Rows, target_entropy: float) -> float:
    """Return the same with log alpha in the place of alpha, as the authors' and most later code has it."""
    return reduce([-log_alpha * (log_prob + target_entropy) for log_prob in log_probs])


def squashed_gaussian_actions(inputs: Rows, noise: Rows) -> tuple[Rows, Rows]:
    """Return actions tanh(mean + std noise) and their log-densities: appendix C.

    `inputs` are [N, 2 d], means and then logarithms of deviations, `noise` [N, d].
    """
    count, size = noise.shape
    actions, log_probs = np.zeros((count, size)), np.zeros(count)
    for row in range(count):
        for i in range(size):
            log_std = inputs[row, size + i]
            u = inputs[row, i] + math.exp(log_std) * noise[row, i]
            actions[row, i] = math.tanh(u)
            log_probs[row] += -0.5 * noise[row, i] ** 2 - log_std - 0.5 * math.log(2 * math.pi)
            log_probs[row] -= 2 * (math.log(2) - abs(u) - math.log1p(math.exp(-2 * abs(u))))  # log(1 - tanh(u)^2)
    return actions, log_probs


def discrete_soft_q_targets(
    next_values: Rows, other_next_values: Rows, next_logits: Rows, rewards: Rows, discounts: Rows, alpha: float
) -> Rows:
    """Return r + discount pi . (min of both Q - alpha log pi): equations 3 and 10 of arXiv 1910.07207.

    Values and logits are [N, actions].
    """
    targets = np.zeros(len(rewards))
    for row in range(len(rewards)):
        soft = 0.0
        for action, log_prob in enumerate(log_softmax(next_logits[row])):
            value = min(next_values[row, action], other_next_values[row, action])
            soft += math.exp(log_prob) * (value - alpha * log_prob)
        targets[row] = rewards[row] + discounts[row] * soft
    return targets


def discrete_soft_policy_loss(logits: Rows, values: Rows, other_values: Rows, alpha: float) -> float:
    """Return the mean of pi . (alpha log pi - min of both Q): equation 12 of arXiv 1910.07207."""
    losses = []
    for row in range(len(logits)):
        loss = 0.0
        for action, log_prob in enumerate(log_softmax(logits[row])):
            value = min(values[row, action], other_values[row, action])
            loss += math.exp(log_prob) * (alpha * log_prob - value)
        losses.append(loss)
    return reduce(losses)


def discrete_temperature_loss(log_alpha: float, logits: Rows, target_entropy: float) -> float:
    """Return the mean of pi . (-alpha (log pi + target entropy)): equation 11 of arXiv 1910.07207."""
    losses = []
    for row in range(len(logits)):
        logs = log_softmax(logits[row])
        losses.append(-math.exp(log_alpha) * math.fsum(math.exp(log) * (log + target_entropy) for log in logs))
    return reduce(losses)
