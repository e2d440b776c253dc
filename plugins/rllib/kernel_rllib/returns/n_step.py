"""n-step returns: the rewards of the next n steps, and where to go on from. Sutton and Barto, chapter 7."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernel_rllib.errors import DataError
from kernel_rllib.returns.steps import Floats, align


class NStep(NamedTuple):
    """The n-step returns of each step [T, L] or [T]: the target is rewards + discounts * value(next observation)."""

    rewards: Floats
    """The discounted sum of the rewards from this row to row `last`."""
    discounts: Floats
    """The weight of the value of the observation after row `last`: gamma^steps, or 0 if that row terminated."""
    last: NDArray[np.int64]
    """The row of the last reward that was counted."""

    @property
    def steps(self) -> NDArray[np.int64]:
        """The numbers of rewards that were counted: fewer than n where the episode, or the rows, end before."""
        time = np.arange(len(self.last)).reshape(-1, *[1] * (self.last.ndim - 1))
        return self.last - time + 1

    def at_last(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return for each row what a column [T, L, ...] holds in row `last`, such as the next observation."""
        if self.last.ndim == 1:
            return column[self.last]
        return column[self.last, np.arange(self.last.shape[1])]


def n_step(
    rewards: ArrayLike,
    terminateds: ArrayLike,
    truncateds: ArrayLike,
    *,
    n: int | NDArray[np.int64],
    gamma: float,
    valid: ArrayLike | None = None,
) -> NStep:
    """Return for each step the discounted sum of the next n rewards, and what the value after them is weighed by.

    The sum stops at an episode's end and at the last row. Equation 7.1 of the book.

    Args:
        rewards: floats [T, L] or [T].
        terminateds: flags; the value after such a step is 0.
        truncateds: flags; the value of the final observation stands for what would have followed.
        n: how many rewards, 1 or more; an array of whole numbers [T, L] or [T] for as many as each row says.
        gamma: the discount, 0 to 1.
        valid: flags, False in rows that hold no step: rewards and discounts are 0 there, `last` is the row itself.
            None: all do.

    Raises:
        DataError: shapes differ, or n is below 1.
    """
    counts = n if isinstance(n, np.ndarray) else None
    most = n if isinstance(n, int) else int(n.max(initial=1))
    if (n if isinstance(n, int) else n.min(initial=1)) < 1:
        raise DataError(f"n is {n}: give the number of rewards to count, 1 or more")
    end, (reward,) = align(terminateds, truncateds, valid, rewards=rewards)
    if counts is not None and counts.shape != reward.shape:
        raise DataError(
            f"n has the shape {list(counts.shape)}, and rewards {list(reward.shape)}: give one for each of them"
        )
    length = len(reward)
    sums = reward.copy()
    last = np.zeros(reward.shape, np.int64)
    reaches = end.linked  # row t reaches row t + ahead
    for ahead in range(1, min(most, length)):
        if counts is not None:
            reaches = reaches & (counts[:-ahead] > ahead)
        weights = reaches * reward.dtype.type(gamma**ahead)
        weights *= reward[ahead:]
        sums[:-ahead] += weights
        last[:-ahead] += reaches
        reaches = reaches[:-1] & end.linked[ahead:]
    powers = np.array([gamma**steps for steps in range(1, most + 1)], reward.dtype)[last]
    last += np.arange(length).reshape(-1, *[1] * (reward.ndim - 1))
    result = NStep(sums, powers, last)
    alive = result.at_last(end.alive)
    return result._replace(discounts=powers * (alive if valid is None else alive & np.asarray(valid, np.bool_)))
