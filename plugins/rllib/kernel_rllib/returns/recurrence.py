"""Backward recurrences over time: what GAE, V-trace, lambda returns and Retrace have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def accumulate_backward(increments: NDArray[Any], decays: NDArray[Any]) -> NDArray[Any]:
    """Overwrite `increments` with y, where y[t] = increments[t] + decays[t] * y[t + 1] and y is 0 after the last row.

    Time is cut into pieces of 1, 2, 4, ... rows that are joined two at a time, for all pieces at once: the logarithm
    of T passes over whole arrays instead of T passes over rows. Which numbers are added in which order depends on T
    alone, so a lane's result has the same bits whatever lanes stand beside it.

    Args:
        increments: floats [T, ...]; overwritten, and returned.
        decays: floats [T, ...] of the same dtype; overwritten with what is of no use. The last row is never read.
    """
    length = len(increments)
    spare = np.empty_like(decays)
    step = 1
    while step < length:
        # Now increments[t] covers rows t to t + step - 1, and decays[t] is the weight of row t + step in it.
        covered = length - step
        joined = np.multiply(decays[:covered], increments[step:], out=spare[:covered])
        np.add(increments[:covered], joined, out=increments[:covered])
        left = covered - step
        if left > 0:  # rows that have another piece after the next
            np.multiply(decays[:left], decays[step:covered], out=spare[:left])
            decays, spare = spare, decays
        step *= 2
    return increments
