"""Returns to go: the discounted sum of the rewards from each step on."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kernel_rllib.returns.lambda_returns import lambda_returns
from kernel_rllib.returns.steps import Floats


def returns_to_go(
    rewards: ArrayLike,
    terminateds: ArrayLike,
    truncateds: ArrayLike,
    *,
    gamma: float,
    next_values: ArrayLike | None = None,
    valid: ArrayLike | None = None,
) -> Floats:
    """Return r(t) + gamma r(t + 1) + gamma^2 r(t + 2) + ... up to the end of the episode or of the rows.

    Args:
        rewards: floats [T, L] or [T].
        terminateds: flags; nothing follows such a step.
        truncateds: flags; what would have followed such a step is worth its `next_values`.
        gamma: the discount, 0 to 1.
        next_values: the value of the observation after each step, of the final one at an episode's end: it stands for
            the rewards that are not in the rows. None counts these as 0, which is too low where an episode goes on.
        valid: flags, False in rows that hold no step: the result is 0 there. None: all do.

    Raises:
        DataError: shapes differ.
    """
    if next_values is None:
        next_values = np.zeros(np.shape(rewards), np.float32)
    return lambda_returns(rewards, next_values, terminateds, truncateds, gamma=gamma, lambda_=1.0, valid=valid)
