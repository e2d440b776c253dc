"""The loss of quantile regression (Dabney et al. 2018, arXiv:1710.10044), which QR-DQN, IQN and TQC share."""

from __future__ import annotations

from typing import Any

from kernel_rllib.nn.ops import Ops

WITHOUT_ATOMS = {
    **dict.fromkeys(
        ("num_atoms", "v_min", "v_max"),
        "it learns quantiles of returns, not chances of fixed returns: num_quantiles says how many",
    ),
    "td_error_loss_fn": "the loss of quantiles is Huber's up to huber_threshold, and linear with huber_threshold=0",
}
"""Settings of DQN that have no effect with quantiles in place of values or atoms, and the reasons."""


def quantile_huber(nn: Ops, quantiles: Any, levels: Any, targets: Any, threshold: float) -> Any:
    """Return the loss [N] of quantiles: sum over i of the mean over j of |level_i - [u_ij < 0]| L(u_ij) (equation 10).

    u_ij is target_j - quantile_i, and L is Huber's loss (equation 9) divided by its threshold, as in later papers, so
    that with smaller thresholds it comes near to |u|, which it is with 0 (equation 8). With 1 it is the paper's.

    Args:
        nn: The operations.
        quantiles: The quantiles that learn [N, count].
        levels: The levels of these quantiles, constants from 0 to 1: [count], or [N, count] where rows differ.
        targets: Samples of the returns, constants [N, targets], each as likely.
        threshold: The error up to which L is a square.
    """
    errors = nn.expand_dims(targets, 1) - nn.expand_dims(quantiles, 2)
    sizes = nn.huber(errors, threshold) / threshold if threshold else nn.abs(errors)
    # |level - [u < 0]| is the level where u is positive, and 1 - level where it is negative. At 0 L is 0 anyway.
    shares = 0.5 + nn.expand_dims(levels - 0.5, -1) * nn.sign(errors)
    return nn.sum(nn.mean(shares * sizes, axis=2), axis=1)
