"""Search directions from returns alone: Salimans et al. 2017 (ES, arXiv 1703.03864) and Mania et al. 2018 (ARS, arXiv
1803.07055)."""

from __future__ import annotations

import math

import numpy as np

from kernel_rllib.testing.reference.rows import Rows


def centered_ranks(returns: Rows) -> Rows:
    """Return the ranks of numbers (any shape), from -0.5 for the lowest to 0.5 for the highest: section 2.1 of ES.

    Of equal numbers the earlier one in C order ranks lower.
    """
    flat = np.asarray(returns, np.float64).ravel()
    ranks = np.zeros(len(flat))
    for rank, place in enumerate(sorted(range(len(flat)), key=lambda index: (flat[index], index))):
        ranks[place] = rank / (len(flat) - 1) - 0.5
    return ranks.reshape(np.shape(returns))


def es_gradient(directions: Rows, fitness: Rows, sigma: float) -> Rows:
    """Return the ascent direction 1 / (n sigma) sum of F(i) epsilon(i): the update of ES's algorithm 1.

    `directions` are [n, parameters], `fitness` [n], both of whole perturbations.
    """
    total = np.zeros(directions.shape[1])
    for direction, f in zip(directions, fitness, strict=True):
        total += f * direction
    return total / (len(directions) * sigma)


def antithetic_es_gradient(directions: Rows, fitness: Rows, sigma: float) -> Rows:
    """Return the same for pairs: `fitness` [n, 2] is that of +epsilon(i) and of -epsilon(i) (mirrored sampling)."""
    both = np.concatenate([directions, -directions])
    return es_gradient(both, np.concatenate([fitness[:, 0], fitness[:, 1]]), sigma)


def ars_gradient(directions: Rows, returns: Rows, top: int | None = None) -> Rows:
    """Return the ascent direction of ARS: line 7 of its algorithm 2 (versions V1-t and V2-t with `top`).

    1 / (b sigma_R) sum over the b best directions of (r(+) - r(-)) delta, where a direction is as good as the better
    one of its two returns, and sigma_R is the standard deviation of the 2 b returns used.

    Args:
        directions: delta [n, parameters].
        returns: [n, 2], of +delta and of -delta.
        top: b; None: all.
    """
    order = sorted(range(len(directions)), key=lambda i: (-max(returns[i]), i))
    used = order[: len(directions) if top is None else top]
    rewards = [float(returns[i, side]) for i in used for side in (0, 1)]
    mean = math.fsum(rewards) / len(rewards)
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    total = np.zeros(directions.shape[1])
    for i in used:
        total += (returns[i, 0] - returns[i, 1]) * directions[i]
    return total / (len(used) * deviation)
