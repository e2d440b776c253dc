"""Returns of one lane (arrays [T]), as sums over the steps that follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Lane = Sequence[float] | NDArray[np.float64]
Flags = Sequence[bool] | NDArray[np.bool_]
Result = NDArray[np.float64]


def trace(t: int, terminateds: Flags, truncateds: Flags) -> range:
    """Return the rows from t to the end of its episode, or to the last row."""
    last = t
    while last + 1 < len(terminateds) and not terminateds[last] and not truncateds[last]:
        last += 1
    return range(t, last + 1)


def value_after(t: int, next_values: Lane, terminateds: Flags) -> float:
    """Return the value of what follows step t: 0 after one that terminated."""
    return 0.0 if terminateds[t] else float(next_values[t])


def temporal_difference(
    t: int, rewards: Lane, values: Lane, next_values: Lane, terminateds: Flags, gamma: float
) -> float:
    """Return r(t) + gamma V(x(t + 1)) - V(x(t))."""
    return rewards[t] + gamma * value_after(t, next_values, terminateds) - values[t]


def gae(
    rewards: Lane,
    values: Lane,
    next_values: Lane,
    terminateds: Flags,
    truncateds: Flags,
    gamma: float,
    lambda_: float,
) -> tuple[Result, Result]:
    """Return advantages by equation 16 of arXiv 1506.02438, and value targets: advantages plus values."""
    advantages = np.zeros(len(rewards))
    for t in range(len(rewards)):
        for k in trace(t, terminateds, truncateds):
            delta = temporal_difference(k, rewards, values, next_values, terminateds, gamma)
            advantages[t] += (gamma * lambda_) ** (k - t) * delta
    return advantages, advantages + np.asarray(values, np.float64)


def returns_to_go(
    rewards: Lane, terminateds: Flags, truncateds: Flags, gamma: float, next_values: Lane | None = None
) -> Result:
    """Return discounted sums of rewards, with the value after the last one if there are values."""
    result = np.zeros(len(rewards))
    for t in range(len(rewards)):
        rows = trace(t, terminateds, truncateds)
        for k in rows:
            result[t] += gamma ** (k - t) * rewards[k]
        if next_values is not None:
            result[t] += gamma ** len(rows) * value_after(rows[-1], next_values, terminateds)
    return result


def n_step_return(
    t: int, n: int, rewards: Lane, next_values: Lane, terminateds: Flags, truncateds: Flags, gamma: float
) -> float:
    """Return G(t : t + n) by equation 7.1 of Sutton and Barto; of fewer steps where the episode or the rows end."""
    rows = trace(t, terminateds, truncateds)[:n]
    total = 0.0
    for k in rows:
        total += gamma ** (k - t) * rewards[k]
    return total + gamma ** len(rows) * value_after(rows[-1], next_values, terminateds)


def lambda_returns(
    rewards: Lane, next_values: Lane, terminateds: Flags, truncateds: Flags, gamma: float, lambda_: float
) -> Result:
    """Return equation 12.3 of Sutton and Barto: n-step returns weighed by (1 - lambda) lambda^(n - 1), the last by
    what is left."""
    result = np.zeros(len(rewards))
    for t in range(len(rewards)):
        steps = len(trace(t, terminateds, truncateds))
        for n in range(1, steps + 1):
            share = lambda_ ** (n - 1) * (1 if n == steps else 1 - lambda_)
            result[t] += share * n_step_return(t, n, rewards, next_values, terminateds, truncateds, gamma)
    return result


def vtrace(
    log_ratios: Lane,
    rewards: Lane,
    values: Lane,
    next_values: Lane,
    terminateds: Flags,
    truncateds: Flags,
    gamma: float,
    lambda_: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    policy_rho_bar: float = 1.0,
) -> tuple[Result, Result]:
    """Return value targets by equation 1 of arXiv 1802.01561, and the advantages of its section 4.2."""
    ratios = [math.exp(log_ratio) for log_ratio in log_ratios]
    targets = np.zeros(len(rewards))
    for s in range(len(rewards)):
        targets[s] = values[s]
        product = 1.0
        for t in trace(s, terminateds, truncateds):
            delta = temporal_difference(t, rewards, values, next_values, terminateds, gamma)
            targets[s] += gamma ** (t - s) * product * min(rho_bar, ratios[t]) * delta
            product *= lambda_ * min(c_bar, ratios[t])
    advantages = np.zeros(len(rewards))
    for s in range(len(rewards)):
        goes_on = len(trace(s, terminateds, truncateds)) > 1
        following = targets[s + 1] if goes_on else value_after(s, next_values, terminateds)
        advantages[s] = min(policy_rho_bar, ratios[s]) * (rewards[s] + gamma * following - values[s])
    return targets, advantages


def retrace(
    log_ratios: Lane,
    rewards: Lane,
    action_values: Lane,
    next_values: Lane,
    terminateds: Flags,
    truncateds: Flags,
    gamma: float,
    lambda_: float = 1.0,
) -> Result:
    """Return the targets by the operator of section 3 of arXiv 1606.02647, with the c of Retrace(lambda)."""
    targets = np.zeros(len(rewards))
    for t in range(len(rewards)):
        targets[t] = action_values[t]
        product = 1.0
        for s in trace(t, terminateds, truncateds):
            if s > t:
                product *= lambda_ * min(1.0, math.exp(log_ratios[s]))
            delta = temporal_difference(s, rewards, action_values, next_values, terminateds, gamma)
            targets[t] += gamma ** (s - t) * product * delta
    return targets


class NStep(NamedTuple):
    """See `kernel_rllib.returns.NStep`."""

    rewards: Result
    discounts: Result
    last: NDArray[np.int64]


def n_step(rewards: Lane, terminateds: Flags, truncateds: Flags, n: int, gamma: float) -> NStep:
    """Return the sums of up to n rewards, what the value after them is weighed by, and the last row of each."""
    count = len(rewards)
    result = NStep(np.zeros(count), np.zeros(count), np.zeros(count, np.int64))
    for t in range(count):
        rows = trace(t, terminateds, truncateds)[:n]
        result.rewards[t] = n_step_return(t, n, rewards, [0.0] * count, terminateds, truncateds, gamma)
        result.last[t] = rows[-1]
        result.discounts[t] = 0.0 if terminateds[rows[-1]] else gamma ** len(rows)
    return result


def project_categorical(
    probabilities: NDArray[np.float64], rewards: Lane, discounts: Lane, v_min: float, v_max: float
) -> NDArray[np.float64]:
    """Return algorithm 1 of arXiv 1707.06887 for each row of probabilities [N, atoms]."""
    rows, atoms = probabilities.shape
    spacing = (v_max - v_min) / (atoms - 1)
    result = np.zeros((rows, atoms))
    for row in range(rows):
        for j in range(atoms):
            moved = min(max(rewards[row] + discounts[row] * (v_min + j * spacing), v_min), v_max)
            place = min((moved - v_min) / spacing, atoms - 1)
            lower, upper = math.floor(place), math.ceil(place)
            if lower == upper:  # the paper's shares would both be 0
                result[row, lower] += probabilities[row, j]
            else:
                result[row, lower] += probabilities[row, j] * (upper - place)
                result[row, upper] += probabilities[row, j] * (place - lower)
    return result
