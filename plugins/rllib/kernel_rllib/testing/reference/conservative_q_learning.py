"""Conservative Q-learning: Kumar et al. 2020, arXiv 2006.04779."""

from __future__ import annotations

import math

import numpy as np

from kernel_rllib.testing.reference.rows import Rows, reduce


def conservative_gaps(values: Rows, log_densities: Rows, recorded: Rows, temperature: float = 1.0) -> Rows:
    """Return T log sum_a exp((Q(s, a) - log mu(a)) / T) - Q(s, a_recorded): equation 4, by samples as in appendix F.

    Values of candidates, and the logarithms of the densities that they were drawn by, are [N, M]; others [N].
    """
    gaps = np.zeros(len(recorded))
    for row in range(len(recorded)):
        terms = [(value - log) / temperature for value, log in zip(values[row], log_densities[row], strict=True)]
        most = max(terms)
        gaps[row] = temperature * (most + math.log(math.fsum(math.exp(term - most) for term in terms)))
        gaps[row] -= recorded[row]
    return gaps


def conservative_loss(
    recorded: Rows, targets: Rows, weights: Rows, gaps: Rows, min_q_weight: float, multiplier: float, threshold: float
) -> float:
    """Return one critic's loss: the mean of squared errors, and multiplier (min_q_weight mean(gaps) - threshold).

    The multiplier is 1 and the threshold 0 where the weight of the penalty is not learned; otherwise it is equation 30.
    """
    errors = [weight * (value - target) ** 2 for weight, value, target in zip(weights, recorded, targets, strict=True)]
    return reduce(errors) + multiplier * (min_q_weight * reduce(gaps) - threshold)


def imitation_policy_loss(log_probs: Rows, recorded_log_probs: Rows, alpha: float) -> float:
    """Return the mean of alpha log pi(a | s) - log pi(a_recorded | s): how the policy begins."""
    return reduce([alpha * drawn - given for drawn, given in zip(log_probs, recorded_log_probs, strict=True)])
