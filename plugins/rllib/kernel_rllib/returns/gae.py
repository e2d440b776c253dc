"""Generalised advantage estimation: Schulman et al. 2016, arXiv 1506.02438."""

from __future__ import annotations

from numpy.typing import ArrayLike

from kernel_rllib.returns.recurrence import accumulate_backward
from kernel_rllib.returns.steps import Floats, align


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    next_values: ArrayLike,
    terminateds: ArrayLike,
    truncateds: ArrayLike,
    *,
    gamma: float,
    lambda_: float,
    valid: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Return the advantages, and the value targets, which are the advantages plus `values`.

    Equation 16 of the paper, the sum of (gamma lambda)^l delta(t + l), by the recurrence
    A(t) = delta(t) + gamma lambda A(t + 1) with delta(t) = r(t) + gamma V(t + 1) - V(t). The trace is cut after an
    episode's end and after the last row.

    Args:
        rewards: floats [T, L] or [T].
        values: the value of the observation before each step.
        next_values: the value of the observation after each step, of the final one at an episode's end.
        terminateds: flags; the value after such a step is 0.
        truncateds: flags; what would have followed such a step is worth its `next_values`.
        gamma: the discount, 0 to 1.
        lambda_: 0 trusts `values` after one step, 1 only after all steps.
        valid: flags, False in rows that hold no step: both results are 0 there. None: all do.

    Raises:
        DataError: shapes differ.
    """
    end, (reward, value, next_value) = align(
        terminateds, truncateds, valid, rewards=rewards, values=values, next_values=next_values
    )
    advantages = next_value * float(gamma)
    advantages *= end.alive
    advantages += reward
    advantages -= value
    accumulate_backward(advantages, end.weights(float(gamma) * float(lambda_), reward.dtype))
    return advantages, advantages + value
