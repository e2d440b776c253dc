"""Retrace: safe and efficient off-policy returns for action values. Munos et al. 2016, arXiv 1606.02647."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kernel_rllib.returns.recurrence import accumulate_backward
from kernel_rllib.returns.steps import Floats, align


def retrace(
    log_ratios: ArrayLike,
    rewards: ArrayLike,
    action_values: ArrayLike,
    next_values: ArrayLike,
    terminateds: ArrayLike,
    truncateds: ArrayLike,
    *,
    gamma: float,
    lambda_: float = 1.0,
    valid: ArrayLike | None = None,
) -> Floats:
    """Return the targets of Q(x(t), a(t)).

    The operator of section 3 of the paper, with c(s) = lambda min(1, pi(a(s) | x(s)) / mu(a(s) | x(s))):
    Q(t) + sum over s >= t of gamma^(s - t) c(t + 1) ... c(s) (r(s) + gamma E Q(x(s + 1), .) - Q(x(s), a(s))).

    Args:
        log_ratios: floats [T, L] or [T], log pi - log mu of the actions taken: the policy learnt about over the one
            that acted.
        rewards: of the same shape, as are all others.
        action_values: Q of the observation before each step and of the action taken.
        next_values: the mean of Q under pi of the observation after each step, of the final one at an episode's end.
        terminateds: flags; the value after such a step is 0.
        truncateds: flags; what would have followed such a step is worth its `next_values`.
        gamma: the discount, 0 to 1.
        lambda_: 0 gives one-step targets, 1 the longest traces.
        valid: flags, False in rows that hold no step: the result is 0 there. None: all do.

    Raises:
        DataError: shapes differ.
    """
    end, (reward, value, next_value, log_ratio) = align(
        terminateds,
        truncateds,
        valid,
        rewards=rewards,
        action_values=action_values,
        next_values=next_values,
        log_ratios=log_ratios,
    )
    corrections = next_value * float(gamma)
    corrections *= end.alive
    corrections += reward
    corrections -= value
    decays = end.weights(float(gamma) * float(lambda_), reward.dtype)
    decays[:-1] *= np.exp(np.minimum(log_ratio[1:], 0))  # row t is weighed by the action of row t + 1
    accumulate_backward(corrections, decays)
    corrections += value
    return corrections
