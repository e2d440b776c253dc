"""Numbers of any size for networks: symlog, and two-hot distributions over bins (Hafner et al. 2023, 2301.04104)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.nn.ops import Ops

MOST = 20.0
"""The largest bin, in symlog: about 5e8."""


def symlog(x: Array) -> Array:
    """Return sign(x) log(1 + |x|) (equation 9 of the paper)."""
    found: Array = np.sign(x) * np.log1p(np.abs(x))
    return found


def symexp(x: Array) -> Array:
    """Return what `symlog` made these numbers of (equation 9)."""
    found: Array = np.sign(x) * np.expm1(np.abs(x))
    return found


def bins(count: int, dtype: Any = np.float32) -> Array:
    """Return the values of bins, in symlog: from -20 to 20."""
    return np.linspace(-MOST, MOST, count, dtype=dtype)


def two_hot(x: Array, count: int) -> Array:
    """Return weights [..., count] of bins for numbers [...]: of the two next to symlog(x), which average to it.

    (Equation 10 of the paper.) Beyond the outermost bins all weight is at the last one.
    """
    places = (np.clip(symlog(x), -MOST, MOST) + MOST) / (2 * MOST) * (count - 1)
    below = np.minimum(places.astype(np.int64), count - 2)
    above = places - below
    found = np.zeros((*np.shape(x), count), np.asarray(x).dtype)
    np.put_along_axis(found, below[..., None], (1 - above)[..., None], axis=-1)
    np.put_along_axis(found, below[..., None] + 1, above[..., None], axis=-1)
    return found


def two_hot_loss(nn: Ops, logits: Any, weights: Array) -> Any:
    """Return how unlikely the weights [..., K] of bins are by logits [..., K] (equation 11): [...].

    Weights may be the sum of several of them, which costs no more than one.
    """
    return -nn.sum(nn.log_softmax(logits) * nn.constant(weights), axis=-1)


def expected(logits: Array) -> Array:
    """Return the numbers [...] that distributions over bins stand for: symexp of their means, for logits [..., K]."""
    shares = logits - logits.max(axis=-1, keepdims=True)
    np.exp(shares, out=shares)
    count = logits.shape[-1]
    sums = shares @ np.stack([np.ones(count, logits.dtype), bins(count, logits.dtype)], axis=1)
    return symexp(sums[..., 1] / sums[..., 0])
