"""Measures of risk as distortions of levels: those of Dabney et al. 2018 (IQN), arXiv:1806.06923.

The mean of the quantiles at distorted levels is a value that counts bad returns more, or good ones, than the mean does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from kernel_rllib.returns.steps import Floats

RiskMeasure = Literal["CVaR", "CPW", "Wang", "Pow"]


def conditional_value_at_risk(levels: Floats, eta: float) -> Floats:
    """Return eta * level: only the worst returns count, as many as `eta` says (Chow and Ghavamzadeh, 2014)."""
    return eta * levels


def cumulative_probability_weighting(levels: Floats, eta: float) -> Floats:
    """Return level^eta / (level^eta + (1 - level)^eta)^(1 / eta): as people weigh, with 0.71 (Tversky, 1992)."""
    chances = levels**eta
    weighted: Floats = chances / (chances + (1 - levels) ** eta) ** (1 / eta)
    return weighted


def wang(levels: Floats, eta: float) -> Floats:
    """Return Phi(Phi^-1(level) + eta): averse to risk where `eta` is negative, seeking it where positive (2000)."""
    distorted: Floats = ndtr(ndtri(levels) + np.asarray(eta, levels.dtype))
    return distorted


def power(levels: Floats, eta: float) -> Floats:
    """Return level^(1 / (1 + |eta|)) where `eta` is 0 or more, and 1 - (1 - level)^(1 / (1 + |eta|)) where negative."""
    exponent = 1 / (1 + abs(eta))
    distorted: Floats = levels**exponent if eta >= 0 else 1 - (1 - levels) ** exponent
    return distorted


DISTORTIONS: dict[RiskMeasure, Callable[[Any, float], Floats]] = {
    "CVaR": conditional_value_at_risk,
    "CPW": cumulative_probability_weighting,
    "Wang": wang,
    "Pow": power,
}
"""The functions from levels [...] to distorted levels, from 0 to 1, by the names of the measures."""


def eta_problem(measure: RiskMeasure, eta: float) -> str | None:
    """Return what is wrong with a parameter of a measure, as the end of a sentence, or None."""
    if measure == "CVaR" and not 0 < eta <= 1:
        return "CVaR is the mean of a share of the returns, the worst, so it is above 0 and up to 1"
    if measure == "CPW" and eta <= 0:
        return "CPW takes a power of chances, so it is above 0"
    return None
