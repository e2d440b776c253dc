"""Q-learning from sequences: Kapturowski et al. 2019 (R2D2), equations 1 and 2 and section 2.3, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernel_rllib.testing.reference.rows import Rows


def h(x: float, epsilon: float) -> float:
    """Return h(x): equation 1."""
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + epsilon * x


def inverse_of_h(y: float, epsilon: float) -> float:
    """Return the x with h(x) = y, by halving an interval."""
    low, high = -1e9, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if h(middle, epsilon) < y else (low, middle)
    return (low + high) / 2


def sequence_targets(
    rewards: Sequence[float],
    is_over: bool,
    chooser: Rows,
    values: Rows,
    *,
    n: int,
    gamma: float,
    epsilon: float,
) -> list[float]:
    """Return h( sum gamma^k r_k + gamma^n h^-1( Q'(s_n, a*) ) ) for each step of one sequence: equation 2.

    Args:
        rewards: Those of T steps.
        is_over: Whether the episode terminated with the last of them.
        chooser: The values of the network that chooses a* [T + 1, A].
        values: Those of the target network [T + 1, A].
        n: The number of rewards; fewer where the sequence ends before.
        gamma: The discount.
        epsilon: That of h.
    """
    found = []
    for step in range(len(rewards)):
        until = min(step + n, len(rewards))
        total = math.fsum(gamma ** (at - step) * rewards[at] for at in range(step, until))
        if not (is_over and until == len(rewards)):
            best = int(chooser[until].argmax())
            total += gamma ** (until - step) * inverse_of_h(float(values[until][best]), epsilon)
        found.append(h(total, epsilon))
    return found


def sequence_loss(values: Rows, actions: Rows, targets: Rows, mask: Rows, weights: Rows) -> float:
    """Return the mean, over the steps that count, of w (Q(s, a) - y)^2 / 2."""
    costs = [
        weights[row] * mask[row] * (values[row][int(actions[row])] - targets[row]) ** 2 / 2 for row in range(len(mask))
    ]
    return math.fsum(costs) / math.fsum(mask)


def priority(errors: Sequence[float], eta: float) -> float:
    """Return eta max |error| + (1 - eta) mean |error|: section 2.3."""
    sizes = [abs(error) for error in errors]
    return eta * max(sizes) + (1 - eta) * math.fsum(sizes) / len(sizes)
