"""Targets of a value's distribution as quantiles (QR-DQN): Dabney et al. 2018, arXiv 1710.10044."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernel_rllib.errors import DataError
from kernel_rllib.returns.steps import Floats


def quantile_midpoints(count: int, dtype: Any = np.float32) -> Floats:
    """Return the levels [count] whose quantiles are nearest to a distribution: (2 i + 1) / (2 count), lemma 2.

    Raises:
        DataError: `count` is below 1.
    """
    if count < 1:
        raise DataError(f"{count} quantiles: give 1 or more")
    return ((np.arange(count) + 0.5) / count).astype(dtype)


def quantile_targets(quantiles: ArrayLike, rewards: ArrayLike, discounts: ArrayLike) -> Floats:
    """Return the quantiles [N, count] of reward + discount * Z: algorithm 1 of the paper.

    Args:
        quantiles: floats [N, count], those of Z after the step: of the action that the policy would take there.
        rewards: floats [N], for n-step targets the discounted sum.
        discounts: floats [N], gamma (for n-step targets gamma^n), and 0 after a step that terminated.

    Raises:
        DataError: shapes do not fit.
    """
    given = np.asarray(quantiles)
    if given.dtype.kind != "f":
        given = given.astype(np.float32)
    reward, discount = np.asarray(rewards, given.dtype), np.asarray(discounts, given.dtype)
    if given.ndim != 2 or reward.shape != given.shape[:1] or discount.shape != given.shape[:1]:
        raise DataError(
            f"quantiles have the shape {list(given.shape)}, rewards {list(reward.shape)} and discounts "
            f"{list(discount.shape)}: [row, quantile], [row] and [row] were expected"
        )
    targets: Floats = reward[:, None] + discount[:, None] * given
    return targets
