"""SlateQ as its paper writes it (Ie et al. 2019, arXiv:1905.12767): all slates, one after the other, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from kernel_rllib.testing.reference.rows import Rows


def choice(logits: Rows, slate: Sequence[int]) -> list[float]:
    """Return how likely each document of a slate is consumed, and last that none is: the logit model (equation 5).

    Args:
        logits: [documents + 1] of one user; the last is that of consuming none.
        slate: The numbers of documents.
    """
    masses = [math.exp(logits[item]) for item in [*slate, len(logits) - 1]]
    return [mass / sum(masses) for mass in masses]


def slate_value(values: Rows, logits: Rows, slate: Sequence[int]) -> float:
    """Return Q(s, A) = sum_i P(i | s, A) Q(s, i) (equation 14); what none is worth is one of the terms."""
    shares = choice(logits, slate)
    return float(sum(share * values[item] for share, item in zip(shares, [*slate, len(logits) - 1], strict=True)))


def best_slate(values: Rows, logits: Rows, size: int) -> tuple[set[int], float]:
    """Return the slate with the greatest value, and that value, of all there are."""
    slates = itertools.combinations(range(len(values) - 1), size)
    found = max(slates, key=lambda slate: slate_value(values, logits, slate))
    return set(found), slate_value(values, logits, found)


def targets(values: Rows, logits: Rows, rewards: Rows, discounts: Rows, size: int) -> Rows:
    """Return r + discount * max_A Q(s', A) for each row (equation 17).

    Args:
        values: [N, documents + 1] of the next observations.
        logits: The same.
        rewards: [N].
        discounts: [N], gamma, and 0 after a step that terminated.
        size: The number of documents of a slate.
    """
    found = np.zeros(len(rewards))
    for row in range(len(rewards)):
        found[row] = rewards[row] + discounts[row] * best_slate(values[row], logits[row], size)[1]
    return found


def losses(values: Rows, logits: Rows, slates: Rows, clicked: Rows, aims: Rows, weights: Rows) -> tuple[float, float]:
    """Return the loss of values, 1/2 mean(w (Q(s, consumed) - target)^2), and that of choices, -mean(w log P).

    Args:
        values: [N, documents + 1].
        logits: The same.
        slates: [N, size].
        clicked: [N], the place in the slate that was consumed, or its size for none.
        aims: [N], the targets.
        weights: [N].
    """
    of_values = of_choices = 0.0
    for row, slate in enumerate(slates):
        item = [*slate, len(values[row]) - 1][clicked[row]]
        of_values += weights[row] * 0.5 * (values[row][item] - aims[row]) ** 2
        of_choices -= weights[row] * math.log(choice(logits[row], slate)[clicked[row]])
    return of_values / len(slates), of_choices / len(slates)
