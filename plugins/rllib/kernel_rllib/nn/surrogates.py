"""The clipped surrogate of proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347, equation 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]


def clipped_surrogate(
    log_probs: Numbers, before: Numbers, advantages: Numbers, low: float, high: float
) -> tuple[Numbers, Callable[[Numbers], Numbers]]:
    """Return min(r A, clip(r, low, high) A) with r = exp(log_probs - before), and what makes the gradient of log_probs.

    The gradient is r A, and zero where the clipped term is less: that one doesn't change with r.
    """
    ratio = np.exp(log_probs - before)
    free = ratio * advantages
    clipped = ratio.clip(low, high)
    clipped *= advantages

    def backward_of(gradient: Numbers) -> Numbers:
        slope: Numbers = gradient * advantages
        slope *= ratio
        return np.where(clipped < free, slope.dtype.type(0), slope)

    return np.minimum(free, clipped), backward_of
