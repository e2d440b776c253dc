"""TD(lambda) returns: Sutton and Barto, Reinforcement Learning (2nd edition), chapter 12."""

from __future__ import annotations

from numpy.typing import ArrayLike

from kernel_rllib.returns.recurrence import accumulate_backward
from kernel_rllib.returns.steps import Floats, align


def lambda_returns(
    rewards: ArrayLike,
    next_values: ArrayLike,
    terminateds: ArrayLike,
    truncateds: ArrayLike,
    *,
    gamma: float,
    lambda_: float,
    valid: ArrayLike | None = None,
) -> Floats:
    """Return G(t) = r(t) + gamma ((1 - lambda) V(t + 1) + lambda G(t + 1)), the mean of all n-step returns.

    Equation 12.18 of the book in its recursive form. Where the next step isn't there (an episode was truncated, the
    rows end) G(t + 1) is V(t + 1); after a step that terminated both are 0.

    Args:
        rewards: floats [T, L] or [T].
        next_values: the value of the observation after each step, of the final one at an episode's end.
        terminateds: flags; the value after such a step is 0.
        truncateds: flags; what would have followed such a step is worth its `next_values`.
        gamma: the discount, 0 to 1.
        lambda_: 0 gives one-step targets, 1 the discounted sum of all rewards.
        valid: flags, False in rows that hold no step: the result is 0 there. None: all do.

    Raises:
        DataError: shapes differ.
    """
    end, (reward, next_value) = align(terminateds, truncateds, valid, rewards=rewards, next_values=next_values)
    decays = end.weights(float(lambda_), reward.dtype)
    returns = next_value * (1 - decays)
    returns *= end.alive
    returns *= float(gamma)
    returns += reward
    decays *= float(gamma)
    return accumulate_backward(returns, decays)
