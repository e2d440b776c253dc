"""Gradients of the tape against finite differences: of log-probabilities, entropies, divergences and samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_rllib.distributions import (
    Beta,
    Bounds,
    Categorical,
    Deterministic,
    Dirichlet,
    Distribution,
    Gaussian,
    GumbelSoftmax,
    MultiBinary,
    MultiCategorical,
    Product,
    SquashedGaussian,
)
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient

BOUNDS = Bounds((-1.0, 0.0), (3.0, 0.5))
ROWS = 3

EVERY: dict[str, Distribution] = {
    "categorical": Categorical(4, start=2),
    "multi categorical": MultiCategorical((3, 2, 2), (0, 1, 5)),
    "multi binary": MultiBinary(3),
    "gaussian": Gaussian(2),
    "squashed gaussian": SquashedGaussian(BOUNDS),
    "beta": Beta(BOUNDS),
    "dirichlet": Dirichlet(3),
    "gumbel softmax": GumbelSoftmax(3, 0.7),
    "bounded deterministic": Deterministic(2, BOUNDS),
    "product": Product((Categorical(3), SquashedGaussian(BOUNDS), MultiBinary(2))),
}
every = pytest.mark.parametrize("name", EVERY)


def check(function: Callable[[Any, Any], Any], inputs: np.ndarray, tolerance: float = 1e-7) -> np.ndarray:
    """Compare the tape's gradient of `function(nn, inputs)`, summed, with the numerical one; return it."""
    numpy = backend("numpy")
    table = ParameterTable({"inputs": inputs.shape})

    def loss(nn: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        return nn.sum(function(nn, params["inputs"])), {}

    def value(vector: np.ndarray) -> float:
        return float(numpy.evaluate(loss, vector, table)[0])

    vector = inputs.ravel().copy()
    expected = numerical_gradient(value, vector)
    _, found = numpy.gradient(loss, vector, table)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=tolerance)
    return found.copy()


def given(name: str) -> tuple[Distribution, np.ndarray, np.ndarray, np.ndarray]:
    """Return a distribution, inputs, other inputs and noise."""
    distribution, generator = EVERY[name], np.random.default_rng(4)
    inputs, others = (generator.normal(size=(ROWS, distribution.parameter_size)) for _ in range(2))
    shape = ROWS, distribution.noise.width
    noise = generator.normal(size=shape) if distribution.noise.kind == "normal" else generator.random(shape)
    return distribution, inputs, others, noise


WITHOUT_GRADIENT = ("bounded deterministic",)
"""All of whose mass is on one action: its log-probability, entropy and divergence are constants."""


@pytest.mark.parametrize("name", [name for name in EVERY if name not in WITHOUT_GRADIENT])
def test_gradients_of_what_losses_are_made_of(name: str) -> None:
    distribution, inputs, others, noise = given(name)
    actions = backend("numpy").evaluate(
        lambda nn, params: distribution.sample(nn, params["inputs"], noise), inputs.ravel(),
        ParameterTable({"inputs": inputs.shape}),
    )  # fmt: skip
    assert check(lambda nn, x: distribution.log_prob(nn, x, actions), inputs).any()
    assert check(lambda nn, x: distribution.entropy(nn, x), inputs).any()
    assert check(lambda nn, x: distribution.kl(nn, x, others), inputs).any()
    assert check(lambda nn, x: distribution.kl(nn, others, x), inputs).any()


@pytest.mark.parametrize("name", [name for name, distribution in EVERY.items() if distribution.reparameterised])
def test_gradients_go_through_samples(name: str) -> None:
    distribution, inputs, _, noise = given(name)
    weights = np.arange(1.0, 1 + distribution.action_size)
    assert check(lambda nn, x: distribution.sample(nn, x, noise) * weights, inputs).any()

    def soft(nn: Any, x: Any) -> Any:
        actions, log_prob = distribution.sample_and_log_prob(nn, x, noise)
        return log_prob + nn.sum(actions * weights, 1)

    assert check(soft, inputs).any()


@every
def test_samples_that_are_not_reparameterised_have_no_gradient(name: str) -> None:
    distribution, inputs, _, noise = given(name)
    if distribution.reparameterised or name == "product":
        return

    def loss(nn: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        actions = distribution.sample(nn, params["inputs"], noise)
        return nn.sum(params["inputs"]) + nn.sum(nn.constant(actions * 1.0)), {}

    _, found = backend("numpy").gradient(loss, inputs.ravel(), ParameterTable({"inputs": inputs.shape}))
    assert np.array_equal(found, np.ones(inputs.size))


def test_a_product_passes_gradients_to_the_parts_that_take_them() -> None:
    distribution, inputs, _, noise = given("product")

    def soft(nn: Any, x: Any) -> Any:
        actions, log_prob = distribution.sample_and_log_prob(nn, x, noise)
        return log_prob + nn.sum(actions[:, 1:3], 1)

    check(soft, inputs)


def test_straight_through_samples_have_the_gradient_of_the_parts() -> None:
    soft, hard = GumbelSoftmax(3, 0.7), GumbelSoftmax(3, 0.7, straight_through=True)
    _, inputs, _, noise = given("gumbel softmax")
    weights = np.array([1.0, 2.0, 5.0])
    gradients = []
    for distribution in (soft, hard):

        def loss(nn: Any, params: Any, distribution: Distribution = distribution) -> tuple[Any, dict[str, Any]]:
            return nn.sum(distribution.sample(nn, params["inputs"], noise) * weights), {}

        _, found = backend("numpy").gradient(loss, inputs.ravel(), ParameterTable({"inputs": inputs.shape}))
        gradients.append(found.copy())
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-12)


def test_masked_actions_leave_the_gradients_of_others_finite() -> None:
    distribution = Categorical(3)
    inputs = np.array([[0.5, -np.inf, 1.0], [0.1, np.finfo(np.float64).min, -0.2]])
    others = np.array([[0.1, -np.inf, 0.7], [0.0, np.finfo(np.float64).min, 0.3]])

    def loss(nn: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        x = params["inputs"]
        terms = distribution.log_prob(nn, x, np.array([0, 2])) + distribution.entropy(nn, x)
        return nn.sum(terms + distribution.kl(nn, x, others) + distribution.kl(nn, others, x)), {}

    _, found = backend("numpy").gradient(loss, inputs.ravel(), ParameterTable({"inputs": inputs.shape}))
    found = found.reshape(2, 3)
    assert np.isfinite(found).all() and not found[:, 1].any() and found[:, [0, 2]].any()


def test_log_stds_have_no_gradient_outside_of_their_bounds() -> None:
    distribution = Gaussian(2, (-1.0, 0.5))
    inputs, actions = np.array([[0.0, 0.0, -7.0, 0.1]]), np.array([[0.3, -0.4]])
    found = check(lambda nn, x: distribution.log_prob(nn, x, actions), inputs)
    assert found[2] == 0 and found[3] != 0


def test_squashed_actions_near_a_bound_have_finite_gradients() -> None:
    distribution = SquashedGaussian(Bounds((-1.0,), (1.0,)))
    inputs, noise = np.array([[15.0, 0.0], [-15.0, 1.0]]), np.array([[1.0], [-3.0]])

    def soft(nn: Any, x: Any) -> Any:
        actions, log_prob = distribution.sample_and_log_prob(nn, x, noise)
        return log_prob - nn.sum(actions, 1)

    assert np.isfinite(check(soft, inputs, tolerance=1e-6)).all()
