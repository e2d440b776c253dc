"""Deep Q-learning: Mnih et al. 2015 (DQN), van Hasselt et al. 2016 (double, arXiv 1509.06461), Wang et al. 2016
(dueling, arXiv 1511.06581), Schaul et al. 2016 (prioritised replay, arXiv 1511.05952)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, huber, reduce


class QLosses(NamedTuple):
    """The loss, and the temporal-difference errors that priorities are made of."""

    total: float
    errors: Rows


def q_targets(next_target_values: Rows, rewards: Rows, discounts: Rows, next_online_values: Rows | None = None) -> Rows:
    """Return r + discount * (the target network's value of the best next action) for each row.

    Args:
        next_target_values: [N, actions], Q of the target network after the step.
        rewards: [N]; of n steps, their discounted sum.
        discounts: [N], gamma^n, and 0 after a step that terminated.
        next_online_values: Q of the network that learns: if given, it says which action is best (double DQN, arXiv
            1509.06461), and else the target network itself does (equation 3 there).
    """
    chooser = next_target_values if next_online_values is None else next_online_values
    targets = np.zeros(len(rewards))
    for row in range(len(rewards)):
        best = int(np.argmax(chooser[row]))
        targets[row] = rewards[row] + discounts[row] * next_target_values[row, best]
    return targets


def q_loss(
    values: Rows,
    actions: Sequence[int],
    targets: Rows,
    *,
    weights: Rows | None = None,
    huber_threshold: float | None = 1.0,
) -> QLosses:
    """Return the mean of the weighed losses of Q(s, a) - target.

    Args:
        values: [N, actions], Q of the network that learns.
        actions: those taken.
        targets: what Q of them is drawn to; no gradient goes through them.
        weights: importance-sampling weights of prioritised replay; None: 1.
        huber_threshold: of the Huber loss, which is the clipping of DQN's errors; None: half the square.
    """
    errors = np.array([values[row, action] - targets[row] for row, action in enumerate(actions)])
    weighed = 1.0 if weights is None else np.asarray(weights)
    losses = [huber(error, math.inf if huber_threshold is None else huber_threshold) for error in errors]
    return QLosses(reduce(weighed * np.array(losses)), errors)


def q_loss_gradient(
    values: Rows, actions: Sequence[int], targets: Rows, weights: Rows | None = None, huber_threshold: float = 1.0
) -> Rows:
    """Return its gradient by the values: the clipped error of the action taken, weighed, over N."""
    gradient = np.zeros_like(values)
    for row, action in enumerate(actions):
        error = min(max(values[row, action] - targets[row], -huber_threshold), huber_threshold)
        gradient[row, action] = error * (1.0 if weights is None else weights[row]) / len(values)
    return gradient


def dueling_values(state_values: Rows, advantages: Rows) -> Rows:
    """Return Q(s, a) = V(s) + A(s, a) - mean of A(s, .): equation 9 of arXiv 1511.06581.

    `state_values` are [N], `advantages` [N, actions].
    """
    result = np.zeros_like(advantages)
    for row, action in np.ndindex(*advantages.shape):
        mean = math.fsum(advantages[row]) / len(advantages[row])
        result[row, action] = state_values[row] + advantages[row, action] - mean
    return result


def priorities(errors: Rows, epsilon: float = 1e-6) -> Rows:
    """Return |error| + epsilon: proportional prioritisation, section 3.3 of arXiv 1511.05952."""
    return np.array([abs(error) + epsilon for error in errors])


def sampling_probabilities(all_priorities: Rows, alpha: float) -> Rows:
    """Return equation 1 of arXiv 1511.05952: the powers of the priorities over their sum."""
    powers = [priority**alpha for priority in all_priorities]
    return np.array([power / math.fsum(powers) for power in powers])


def importance_weights(probabilities: Rows, chosen: Sequence[int], beta: float) -> Rows:
    """Return the weights (N P(i))^-beta of section 3.4, over the largest that any entry could have."""
    count = len(probabilities)
    largest = (count * min(probabilities)) ** -beta
    return np.array([(count * probabilities[i]) ** -beta / largest for i in chosen])
