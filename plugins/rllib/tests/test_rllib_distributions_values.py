"""Log-probabilities, entropies and divergences against scipy and against integrals, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from kernel_rllib.nn.numpy_ops import NumpyOps
from scipy import integrate, special, stats

NN = NumpyOps(np.float64)
Array = np.ndarray


def inputs_of(distribution: Distribution, rows: int = 5, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(rows, distribution.parameter_size))


def integral(function: Callable[[Array], Array], low: float, high: float) -> float:
    grid = np.linspace(low, high, 200_001)
    return float(integrate.simpson(function(grid), x=grid))


def softmax(logits: Array) -> Array:
    return special.softmax(logits, axis=-1)


# -- discrete actions ------------------------------------------------------------------------------------------------


@given(rows=st.integers(0, 5), size=st.integers(1, 6), start=st.integers(-3, 3), seed=st.integers(0, 1000))
def test_categorical(rows: int, size: int, start: int, seed: int) -> None:
    distribution = Categorical(size, start)
    inputs, others = inputs_of(distribution, rows, seed), inputs_of(distribution, rows, seed + 1)
    p, q = softmax(inputs), softmax(others)
    assert distribution.parameter_size == size
    for index in range(size):
        found = distribution.log_prob(NN, inputs, np.full(rows, start + index))
        assert found.shape == (rows,)
        np.testing.assert_allclose(found, np.log(p[:, index]), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(distribution.entropy(NN, inputs), stats.entropy(p, axis=1), atol=1e-12)
    np.testing.assert_allclose(distribution.kl(NN, inputs, others), stats.entropy(p, q, axis=1), atol=1e-12)
    np.testing.assert_allclose(distribution.probabilities(NN, inputs), p, rtol=1e-12)
    np.testing.assert_allclose(distribution.log_probabilities(NN, inputs), np.log(p), rtol=1e-11, atol=1e-15)
    assert np.array_equal(distribution.mode(NN, inputs), start + inputs.argmax(1))


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5), with_starts=st.booleans(), seed=st.integers(0, 1000))
def test_multi_categorical_is_several_categoricals(sizes: list[int], with_starts: bool, seed: int) -> None:
    generator = np.random.default_rng(seed)
    starts = tuple(generator.integers(-3, 4, len(sizes)).tolist()) if with_starts else ()
    whole = MultiCategorical(tuple(sizes), starts)
    parts = [Categorical(size, start) for size, start in zip(sizes, starts or [0] * len(sizes), strict=True)]
    inputs, others = inputs_of(whole, 4, seed), inputs_of(whole, 4, seed + 1)
    cuts = np.cumsum(sizes)[:-1]
    own, other = np.split(inputs, cuts, 1), np.split(others, cuts, 1)
    actions = np.stack([part.start + generator.integers(0, part.size, 4) for part in parts], 1)
    noise = generator.random((4, len(sizes)))

    def total(numbers: list[Array]) -> Array:
        return np.sum(numbers, axis=0)

    columns = range(len(sizes))
    expected = total([parts[i].log_prob(NN, own[i], actions[:, i]) for i in columns])
    np.testing.assert_allclose(whole.log_prob(NN, inputs, actions), expected, rtol=1e-12)
    expected = total([parts[i].entropy(NN, own[i]) for i in columns])
    np.testing.assert_allclose(whole.entropy(NN, inputs), expected, rtol=1e-12, atol=1e-15)
    expected = total([parts[i].kl(NN, own[i], other[i]) for i in columns])
    np.testing.assert_allclose(whole.kl(NN, inputs, others), expected, rtol=1e-11, atol=1e-15)
    modes = np.stack([parts[i].mode(NN, own[i]) for i in columns], 1)
    assert np.array_equal(whole.mode(NN, inputs), modes)
    samples = np.stack([parts[i].sample(NN, own[i], noise[:, i : i + 1]) for i in columns], 1)
    found = whole.sample(NN, inputs, noise)
    assert np.array_equal(found, samples) and found.dtype == np.int64 and found.shape == (4, len(sizes))


def test_multi_binary() -> None:
    distribution = MultiBinary(3)
    inputs, others = inputs_of(distribution), inputs_of(distribution, seed=1)
    p, q = special.expit(inputs), special.expit(others)
    actions = np.random.default_rng(2).integers(0, 2, (5, 3)).astype(np.int8)
    np.testing.assert_allclose(distribution.log_prob(NN, inputs, actions), stats.bernoulli(p).logpmf(actions).sum(1))
    np.testing.assert_allclose(distribution.entropy(NN, inputs), stats.bernoulli(p).entropy().sum(1))
    expected = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum(1)
    np.testing.assert_allclose(distribution.kl(NN, inputs, others), expected)
    assert np.array_equal(distribution.mode(NN, inputs), (inputs > 0).astype(np.int8))


# -- boxes -----------------------------------------------------------------------------------------------------------


def test_gaussian() -> None:
    distribution = Gaussian(2)
    inputs, others = inputs_of(distribution), inputs_of(distribution, seed=1)
    actions = np.random.default_rng(2).normal(size=(5, 2))
    norm = stats.norm(inputs[:, :2], np.exp(inputs[:, 2:]))
    other = stats.norm(others[:, :2], np.exp(others[:, 2:]))
    np.testing.assert_allclose(distribution.log_prob(NN, inputs, actions), norm.logpdf(actions).sum(1))
    np.testing.assert_allclose(distribution.entropy(NN, inputs), norm.entropy().sum(1))
    assert np.array_equal(distribution.mode(NN, inputs), inputs[:, :2])
    for row, found in enumerate(distribution.kl(NN, inputs, others)):
        expected = 0.0
        for i in range(2):
            one = stats.norm(inputs[row, i], math.exp(inputs[row, 2 + i]))
            two = stats.norm(others[row, i], math.exp(others[row, 2 + i]))
            expected += integral(lambda x, one=one, two=two: one.pdf(x) * (one.logpdf(x) - two.logpdf(x)), -60, 60)
        assert found == pytest.approx(expected, rel=1e-6)
    assert other.kwds == {} and np.all(distribution.kl(NN, inputs, inputs) == 0)


def test_log_stds_are_cut_to_their_bounds() -> None:
    distribution = Gaussian(1, (-1.0, 0.5))
    inputs = np.array([[0.0, -7.0], [0.0, 7.0], [0.0, 0.25]])
    _, log_std = distribution.mean_and_log_std(NN, inputs)
    assert log_std.ravel().tolist() == [-1.0, 0.5, 0.25]
    expected = stats.norm(0, np.exp([-1.0, 0.5, 0.25])).entropy()
    np.testing.assert_allclose(distribution.entropy(NN, inputs), expected)


BOUNDS = Bounds((-1.0, 0.0), (3.0, 0.5))
WIDTHS = np.array([4.0, 0.5])
LOW = np.array([-1.0, 0.0])


def squashed_log_density(inputs: Array, actions: Array) -> Array:
    """Of one component: the normal density of atanh of the place between the bounds, over the slope."""
    return stats.norm(inputs[0], math.exp(inputs[1])).logpdf(np.arctanh(actions)) - np.log1p(-(actions**2))


def test_squashed_gaussian() -> None:
    distribution = SquashedGaussian(BOUNDS)
    inputs, others = inputs_of(distribution), inputs_of(distribution, seed=1)
    places = np.random.default_rng(2).uniform(-0.99, 0.99, (5, 2))
    actions = LOW + WIDTHS * (places + 1) / 2
    expected = sum(
        np.array([squashed_log_density(inputs[row, [i, 2 + i]], places[row, i]) for row in range(5)])
        - math.log(WIDTHS[i] / 2)
        for i in range(2)
    )
    np.testing.assert_allclose(distribution.log_prob(NN, inputs, actions), expected)
    assert distribution.log_scale == pytest.approx(math.log(2.0 * 0.25))
    np.testing.assert_allclose(distribution.mode(NN, inputs), LOW + WIDTHS * (np.tanh(inputs[:, :2]) + 1) / 2)
    # Squeezing two distributions alike does not change their divergence.
    np.testing.assert_allclose(distribution.kl(NN, inputs, others), Gaussian(2).kl(NN, inputs, others))


@pytest.mark.parametrize("mean", [0.0, 1.0, -6.0])
@pytest.mark.parametrize(("log_std", "tolerance"), [(-5.0, 1e-9), (-1.0, 1e-9), (0.0, 1e-6), (1.0, 2e-3), (2.0, 0.1)])
def test_the_entropy_of_a_squashed_gaussian_is_an_integral(mean: float, log_std: float, tolerance: float) -> None:
    norm = stats.norm(mean, math.exp(log_std))

    def surprise(x: Array) -> Array:  # over x, whose density moves to the action's by the slope
        slope = 2 * (math.log(2) - x - np.logaddexp(0, -2 * x)) + math.log(2.0)
        return norm.pdf(x) * (slope - norm.logpdf(x))

    expected = integral(surprise, mean - 12 * norm.std(), mean + 12 * norm.std())
    found = SquashedGaussian(Bounds((-1.0,), (3.0,))).entropy(NN, np.array([[mean, log_std]]))
    assert found[0] == pytest.approx(expected, abs=tolerance)


def test_beta() -> None:
    distribution = Beta(BOUNDS)
    inputs, others = inputs_of(distribution), inputs_of(distribution, seed=1)
    a, b = 1 + np.logaddexp(0, inputs[:, :2]), 1 + np.logaddexp(0, inputs[:, 2:])
    other_a, other_b = 1 + np.logaddexp(0, others[:, :2]), 1 + np.logaddexp(0, others[:, 2:])
    beta = stats.beta(a, b, loc=LOW, scale=WIDTHS)
    actions = LOW + WIDTHS * np.random.default_rng(2).random((5, 2))
    np.testing.assert_allclose(distribution.log_prob(NN, inputs, actions), beta.logpdf(actions).sum(1))
    np.testing.assert_allclose(distribution.entropy(NN, inputs), beta.entropy().sum(1))
    np.testing.assert_allclose(distribution.mode(NN, inputs), LOW + WIDTHS * (a - 1) / (a + b - 2), rtol=1e-4)
    for row, found in enumerate(distribution.kl(NN, inputs, others)):
        expected = 0.0
        for i in range(2):
            one, two = stats.beta(a[row, i], b[row, i]), stats.beta(other_a[row, i], other_b[row, i])
            expected += integral(
                lambda x, one=one, two=two: one.pdf(x) * (one.logpdf(x) - two.logpdf(x)), 1e-9, 1 - 1e-9
            )
        assert found == pytest.approx(expected, rel=1e-5)


def test_dirichlet() -> None:
    distribution = Dirichlet(3)
    inputs, others = inputs_of(distribution), inputs_of(distribution, seed=1)
    shares = np.random.default_rng(2).dirichlet(np.ones(3), 5)
    for row in range(5):
        dirichlet = stats.dirichlet(np.exp(inputs[row]))
        one = slice(row, row + 1)
        expected = dirichlet.logpdf(shares[row])
        assert distribution.log_prob(NN, inputs[one], shares[one])[0] == pytest.approx(expected, rel=1e-9)
        assert distribution.entropy(NN, inputs[one])[0] == pytest.approx(dirichlet.entropy(), rel=1e-9)
        np.testing.assert_allclose(distribution.mode(NN, inputs[one])[0], dirichlet.mean())
    # With two parts it is a beta distribution, whose divergence is an integral over one number.
    pair = Dirichlet(2)
    inputs, others = np.array([[0.5, 1.0]]), np.array([[1.2, 0.3]])
    one, two = stats.beta(*np.exp(inputs[0])), stats.beta(*np.exp(others[0]))
    expected = integral(lambda x: one.pdf(x) * (one.logpdf(x) - two.logpdf(x)), 1e-9, 1 - 1e-9)
    assert pair.kl(NN, inputs, others)[0] == pytest.approx(expected, rel=1e-5)


def test_gumbel_softmax_has_a_density_of_two_parts_that_sums_to_one() -> None:
    for temperature in (0.5, 1.0, 2.0):
        distribution = GumbelSoftmax(2, temperature)

        def density(odds: Array, distribution: GumbelSoftmax = distribution) -> Array:
            """Of the logarithm of the odds, so that what is near the ends counts."""
            parts = np.stack([special.expit(odds), special.expit(-odds)], 1)
            log_prob = distribution.log_prob(NN, np.tile([0.3, -0.8], (len(odds), 1)), parts)
            return np.exp(log_prob) * parts[:, 0] * parts[:, 1]

        mass = integral(density, -60, 60)
        assert mass == pytest.approx(1, rel=1e-6)
    choices, inputs, others = Categorical(4), inputs_of(Categorical(4)), inputs_of(Categorical(4), seed=1)
    relaxed = GumbelSoftmax(4)
    assert np.array_equal(relaxed.entropy(NN, inputs), choices.entropy(NN, inputs))
    assert np.array_equal(relaxed.kl(NN, inputs, others), choices.kl(NN, inputs, others))
    assert np.array_equal(relaxed.mode(NN, inputs), np.eye(4)[inputs.argmax(1)])


# -- no distribution, and several ------------------------------------------------------------------------------------


def test_deterministic() -> None:
    plain, bounded = Deterministic(2), Deterministic(2, BOUNDS)
    inputs = inputs_of(plain)
    assert plain.sample(NN, inputs, np.zeros((5, 0))) is inputs
    expected = LOW + WIDTHS * (np.tanh(inputs) + 1) / 2
    np.testing.assert_allclose(bounded.mode(NN, inputs), expected)
    for found in (plain.log_prob(NN, inputs, inputs), plain.entropy(NN, inputs), plain.kl(NN, inputs, inputs)):
        assert found.shape == (5,) and found.dtype == np.float64 and not found.any()


PARTS = (Categorical(3, start=2), Gaussian(2), MultiBinary(2), MultiCategorical((2, 3), (1, 0)), Beta(BOUNDS))


def test_a_product_is_the_sum_of_its_parts() -> None:
    whole = Product(PARTS)
    inputs, others = inputs_of(whole), inputs_of(whole, seed=1)
    noise = np.random.default_rng(2).random((5, whole.noise.width))
    actions, log_prob = whole.sample_and_log_prob(NN, inputs, noise)
    assert actions.shape == (5, whole.action_size) == (5, 1 + 2 + 2 + 2 + 2) and actions.dtype == np.float64
    assert np.array_equal(actions, whole.sample(NN, inputs, noise))
    np.testing.assert_allclose(log_prob, whole.log_prob(NN, inputs, actions))
    split = whole.split(actions)
    cuts = np.cumsum([part.parameter_size for part in PARTS])[:-1]
    own, other = np.split(inputs, cuts, 1), np.split(others, cuts, 1)
    assert [array.dtype.kind for array in split] == ["i", "f", "i", "i", "f"]
    assert [array.shape for array in split] == [(5,), (5, 2), (5, 2), (5, 2), (5, 2)]
    expected = sum(part.log_prob(NN, own[i], split[i]) for i, part in enumerate(PARTS))
    np.testing.assert_allclose(log_prob, expected)
    expected = sum(part.entropy(NN, own[i]) for i, part in enumerate(PARTS))
    np.testing.assert_allclose(whole.entropy(NN, inputs), expected)
    expected = sum(part.kl(NN, own[i], other[i]) for i, part in enumerate(PARTS))
    np.testing.assert_allclose(whole.kl(NN, inputs, others), expected)
    modes = whole.split(whole.mode(NN, inputs))
    for i, part in enumerate(PARTS):
        np.testing.assert_allclose(modes[i], part.mode(NN, own[i]))


def test_a_product_of_normal_parts_takes_normal_noise() -> None:
    assert Product((Gaussian(2), Deterministic(1))).noise.kind == "normal"
    assert Product((Gaussian(2), Categorical(2))).noise.kind == "uniform"
    mixed, normal = Product((Gaussian(2), Categorical(2))), Gaussian(2)
    inputs, uniforms = inputs_of(mixed), np.random.default_rng(3).random((5, 3))
    expected = normal.sample(NN, inputs[:, :4], stats.norm.ppf(uniforms[:, :2]))
    found = mixed.sample(NN, inputs, uniforms)
    np.testing.assert_allclose(found[:, :2], expected)
    assert np.array_equal(found[:, 2], Categorical(2).sample(NN, inputs[:, 4:], uniforms[:, 2:]))
