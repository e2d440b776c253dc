"""V-trace: off-policy corrected value targets and advantages. Espeholt et al. 2018 (IMPALA), arXiv 1802.01561."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernel_rllib.returns.recurrence import accumulate_backward
from kernel_rllib.returns.steps import Floats, align

LARGEST_LOG_RATIO = 80.0
"""Ratios are at most e to this, which float32 can hold."""


class VTrace(NamedTuple):
    """The results of V-trace for each step."""

    value_targets: Floats
    """v(t), to which V(x(t)) is drawn."""
    advantages: Floats
    """The weight of log pi(a(t) | x(t)), which includes the importance ratio."""


def vtrace(
    log_ratios: ArrayLike,
    rewards: ArrayLike,
    values: ArrayLike,
    next_values: ArrayLike,
    terminateds: ArrayLike,
    truncateds: ArrayLike,
    *,
    gamma: float,
    lambda_: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    policy_rho_bar: float = 1.0,
    valid: ArrayLike | None = None,
) -> VTrace:
    """Return the value targets and the advantages of steps that an older policy took.

    Equation 1 of the paper in the recursive form of its remark 1:
    v(t) - V(t) = rho(t) (r(t) + gamma V(t + 1) - V(t)) + gamma c(t) (v(t + 1) - V(t + 1)), with
    rho = min(rho_bar, pi / mu) and c = lambda min(c_bar, pi / mu) (remark 2). The advantage of section 4.2 is
    min(policy_rho_bar, pi / mu) (r(t) + gamma v(t + 1) - V(t)). Where the next step isn't there (an episode was
    truncated, the rows end) v(t + 1) is V(t + 1). With ratios of 1 the targets are TD(lambda) returns.

    Args:
        log_ratios: floats [T, L] or [T], log pi - log mu of the actions taken: the policy that learns over the one
            that acted.
        rewards: of the same shape, as are all others.
        values: the value of the observation before each step.
        next_values: the value of the observation after each step, of the final one at an episode's end.
        terminateds: flags; the value after such a step is 0.
        truncateds: flags; what would have followed such a step is worth its `next_values`.
        gamma: the discount, 0 to 1.
        lambda_: 1 as in the paper, less for shorter traces.
        rho_bar: the largest ratio in the temporal differences: it decides what the values converge to.
        c_bar: the largest ratio in the traces: it decides how fast.
        policy_rho_bar: the largest ratio in the advantages.
        valid: flags, False in rows that hold no step: both results are 0 there. None: all do.

    Raises:
        DataError: shapes differ.
    """
    end, (reward, value, next_value, log_ratio) = align(
        terminateds, truncateds, valid, rewards=rewards, values=values, next_values=next_values, log_ratios=log_ratios
    )
    ratio = np.exp(np.minimum(log_ratio, LARGEST_LOG_RATIO))
    following = next_value * end.alive

    corrections = following * float(gamma)
    corrections += reward
    corrections -= value
    corrections *= np.minimum(ratio, float(rho_bar))
    decays = end.weights(float(gamma) * float(lambda_), reward.dtype)
    decays *= np.minimum(ratio, float(c_bar))
    accumulate_backward(corrections, decays)
    targets = corrections + value

    np.copyto(following[:-1], targets[1:], where=end.linked)
    following *= float(gamma)
    following += reward
    following -= value
    following *= np.minimum(ratio, float(policy_rho_bar))
    return VTrace(targets, following)
