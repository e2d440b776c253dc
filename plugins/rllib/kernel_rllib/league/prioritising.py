"""Prioritised fictitious self-play: opponents are met the more often, the harder they are to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Weighting = Literal["squared", "linear", "variance"]


def opponent_weights(win_rates: Sequence[float], weighting: Weighting) -> list[float]:
    """Return how likely each opponent is met, in proportion to f of the probability to win against it.

    f_hard(x) = (1 - x)^2 ("squared") or 1 - x ("linear"); f_var(x) = x (1 - x) ("variance"), which prefers opponents
    of about the same strength (section "Prioritized fictitious self-play" of the methods). If all are 0, all are alike.

    Args:
        win_rates: The probability to win against each opponent.
        weighting: Which f.
    """
    found = [_weight(rate, weighting) for rate in win_rates]
    total = sum(found)
    return [weight / total for weight in found] if total > 0 else [1 / len(found)] * len(found)


def _weight(rate: float, weighting: Weighting) -> float:
    if weighting == "variance":
        return rate * (1 - rate)
    return (1 - rate) ** 2 if weighting == "squared" else 1 - rate
