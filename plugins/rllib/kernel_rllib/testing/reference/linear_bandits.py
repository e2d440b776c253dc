"""LinUCB and LinTS as their papers write them: whole matrices that are inverted anew, in float64, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_rllib.arrays import Array


def ridge(rows: Sequence[Array], rewards: Sequence[float], size: int, lambda_: float) -> tuple[Array, Array]:
    """Return theta [size] and inv(A) [size, size] (Li et al. 2010, arXiv:1003.0146, algorithm 1, lines 7, 12 and 13).

    Args:
        rows: The features of arms that were pulled.
        rewards: The reward of each of them.
        size: The number of features.
        lambda_: The factor of I with which A begins; 1 in the paper.
    """
    a, b = lambda_ * np.eye(size), np.zeros(size)
    for x, reward in zip(rows, rewards, strict=True):
        a = a + np.outer(x, x)
        b = b + reward * x
    inverse = np.linalg.inv(a)
    return inverse @ b, inverse


def upper_bound(x: Array, theta: Array, inverse: Array, alpha: float) -> float:
    """Return theta'x + alpha sqrt(x' inv(A) x) (algorithm 1, line 8)."""
    return float(theta @ x + alpha * np.sqrt(x @ inverse @ x))


def drawn_moments(x: Array, theta: Array, inverse: Array, v: float) -> tuple[float, float]:
    """Return the mean and the variance of x'w for weights w that are drawn from N(theta, v^2 inv(A)).

    Agrawal and Goyal 2012, arXiv:1209.3352, algorithm 1 (B is A there).
    """
    return float(theta @ x), float(v * v * (x @ inverse @ x))
