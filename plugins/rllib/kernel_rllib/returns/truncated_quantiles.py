"""Quantiles of several critics as one distribution without its highest part (TQC): Kuznetsov et al. 2020."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_rllib.errors import DataError
from kernel_rllib.returns.steps import Floats


def truncated_mixture(quantiles: Sequence[Floats], dropped: int) -> Floats:
    """Return the lowest quantiles of all critics together, sorted [N, critics * (count - dropped)]: z_(i), equation 11.

    Args:
        quantiles: The outputs of each critic, floats [N, count].
        dropped: The number that is left out for each critic, of the highest ones of all.

    Raises:
        DataError: None would be left.
    """
    pooled = np.sort(np.concatenate(list(quantiles), axis=1), axis=1)
    left = pooled.shape[1] - dropped * len(quantiles)
    if left < 1:
        raise DataError(
            f"{dropped} quantiles of each of {len(quantiles)} critics are to be dropped, but each has only "
            f"{pooled.shape[1] // len(quantiles)}: drop fewer"
        )
    return pooled[:, :left]
