"""Measures of risk: levels are distorted as the paper says, and stay levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.returns.risk_measures import DISTORTIONS, RiskMeasure, eta_problem
from kernel_rllib.testing.reference.implicit_quantiles import distorted_level

ETAS: list[tuple[RiskMeasure, float]] = [
    ("CVaR", 0.25), ("CVaR", 1.0), ("CPW", 0.71), ("Wang", -0.75), ("Wang", 0.75), ("Pow", -2.0), ("Pow", 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("measure", "eta"), ETAS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_levels_are_distorted_by_the_formula(measure: RiskMeasure, eta: float, dtype: Any, tolerance: float) -> None:
    levels = np.random.default_rng(1).uniform(0.001, 0.999, (3, 7)).astype(dtype)
    found = DISTORTIONS[measure](levels, eta)
    assert found.dtype == dtype and found.shape == levels.shape
    expected = [[distorted_level(measure, eta, float(level)) for level in row] for row in levels]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("measure", "eta"), ETAS)
def test_levels_from_end_to_end_stay_levels_in_their_order(measure: RiskMeasure, eta: float) -> None:
    found = DISTORTIONS[measure](np.linspace(0, 1, 101, dtype=np.float32), eta)
    assert found[0] == 0 and found[-1] == pytest.approx(eta if measure == "CVaR" else 1)
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize(
    ("measure", "eta", "said"),
    [("CVaR", 0.0, "above 0 and up to 1"), ("CVaR", 1.5, "above 0 and up to 1"), ("CPW", 0.0, "so it is above 0")],
)
def test_parameters_that_a_measure_does_not_have_are_named(measure: RiskMeasure, eta: float, said: str) -> None:
    assert said in str(eta_problem(measure, eta))
    assert eta_problem(measure, 0.5) is None and eta_problem("Wang", -2.0) is None
