"""Distributions on torch tensors: the numbers and the gradients that they have in numpy.

Run it where torch is: `pytest plugins/rllib/tests_torch`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
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
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.nn.torch_ops import TorchOps

BOUNDS = Bounds((-1.0, 0.0), (3.0, 0.5))
NUMPY, TORCH = NumpyOps(np.float64), TorchOps(torch.float64)

EVERY: dict[str, Distribution] = {
    "categorical": Categorical(4, start=2),
    "multi categorical": MultiCategorical((3, 2, 2), (0, 1, 5)),
    "multi binary": MultiBinary(3),
    "gaussian": Gaussian(2),
    "squashed gaussian": SquashedGaussian(BOUNDS),
    "beta": Beta(BOUNDS),
    "dirichlet": Dirichlet(3),
    "gumbel softmax": GumbelSoftmax(3, 0.7),
    "straight through": GumbelSoftmax(3, 0.7, straight_through=True),
    "deterministic": Deterministic(2),
    "bounded deterministic": Deterministic(2, BOUNDS),
    "product": Product((Categorical(3, 1), SquashedGaussian(BOUNDS), MultiBinary(2), MultiCategorical((2, 3)))),
}
every = pytest.mark.parametrize("name", EVERY)


def given(name: str) -> tuple[Distribution, np.ndarray, np.ndarray, np.ndarray]:
    """Return a distribution, inputs, other inputs and noise."""
    distribution, generator = EVERY[name], np.random.default_rng(4)
    inputs, others = (generator.normal(size=(5, distribution.parameter_size)) for _ in range(2))
    shape = 5, distribution.noise.width
    noise = generator.normal(size=shape) if distribution.noise.kind == "normal" else generator.random(shape)
    return distribution, inputs, others, noise


def plain(value: Any) -> np.ndarray:
    return TORCH.to_numpy(value)


@every
def test_numbers_are_those_of_numpy(name: str) -> None:
    distribution, inputs, others, noise = given(name)
    expected, expected_log_prob = distribution.sample_and_log_prob(NUMPY, inputs, noise)
    x, y = torch.tensor(inputs), torch.tensor(others)
    for numbers in (noise, torch.tensor(noise)):
        actions, log_prob = distribution.sample_and_log_prob(TORCH, x, numbers)
        np.testing.assert_allclose(plain(actions), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(plain(log_prob), expected_log_prob, rtol=1e-9, atol=1e-9)
        assert np.array_equal(plain(distribution.sample(TORCH, x, numbers)), plain(actions))
    assert isinstance(actions, np.ndarray) == distribution.discrete
    expected_again = distribution.log_prob(NUMPY, inputs, expected)
    for taken in (actions, torch.as_tensor(expected)):
        np.testing.assert_allclose(plain(distribution.log_prob(TORCH, x, taken)), expected_again, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(plain(distribution.mode(TORCH, x)), distribution.mode(NUMPY, inputs), rtol=1e-9)
    np.testing.assert_allclose(plain(distribution.entropy(TORCH, x)), distribution.entropy(NUMPY, inputs), rtol=1e-9)
    found = plain(distribution.kl(TORCH, x, y))
    np.testing.assert_allclose(found, distribution.kl(NUMPY, inputs, others), rtol=1e-9)


@every
def test_gradients_are_those_of_the_tape(name: str) -> None:
    distribution, inputs, others, noise = given(name)
    taken = distribution.sample(NUMPY, inputs, noise)
    table = ParameterTable({"inputs": inputs.shape})

    def loss(nn: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        x = params["inputs"]
        terms = distribution.log_prob(nn, x, nn.constant(taken)) + distribution.entropy(nn, x)
        terms = terms + distribution.kl(nn, x, nn.constant(others)) + distribution.kl(nn, nn.constant(others), x)
        total = nn.sum(terms) + nn.sum(x * x)
        if distribution.reparameterised:
            actions, log_prob = distribution.sample_and_log_prob(nn, x, nn.constant(noise))
            total = total + nn.sum(log_prob) + nn.sum(actions * actions)
        return total, {"total": total}

    results = [backend(which).gradient(loss, inputs.ravel().copy(), table) for which in ("numpy", "torch")]
    (metrics, gradient), (torch_metrics, torch_gradient) = results
    assert torch_metrics["total"] == pytest.approx(metrics["total"], rel=1e-9)
    np.testing.assert_allclose(torch_gradient, gradient, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_constants_suit_narrower_numbers(dtype: torch.dtype) -> None:
    distribution, inputs, _, noise = given("squashed gaussian")
    nn = TorchOps(torch.float32)
    actions, log_prob = distribution.sample_and_log_prob(nn, torch.tensor(inputs).to(dtype), noise.astype(np.float32))
    expected, expected_log_prob = distribution.sample_and_log_prob(NUMPY, inputs, noise)
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    np.testing.assert_allclose(plain(actions.float()), expected, atol=tolerance)
    np.testing.assert_allclose(plain(log_prob.float()), expected_log_prob, atol=5 * tolerance)
