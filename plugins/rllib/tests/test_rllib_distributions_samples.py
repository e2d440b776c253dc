"""Samples: distributed as the densities say, the same in one step as in two, inside their bounds, never NaN."""

from __future__ import annotations

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
from kernel_rllib.distributions.dirichlet import log_gamma_quantile
from kernel_rllib.errors import DataError
from kernel_rllib.nn.numpy_ops import NumpyOps
from scipy import special, stats

NN, NN32 = NumpyOps(np.float64), NumpyOps(np.float32)
BOUNDS = Bounds((-1.0, 0.0), (3.0, 0.5))
COUNT = 20_000
LEAST_CHANCE = 1e-3
"""The seeds are fixed: a p-value below this says that the samples are not those of the distribution."""

EVERY: dict[str, Distribution] = {
    "categorical": Categorical(4, start=-1),
    "one action": Categorical(1),
    "multi categorical": MultiCategorical((3, 2, 2), (0, 1, 5)),
    "equal choices": MultiCategorical((3, 3)),
    "multi binary": MultiBinary(3),
    "gaussian": Gaussian(2),
    "squashed gaussian": SquashedGaussian(BOUNDS),
    "beta": Beta(BOUNDS),
    "dirichlet": Dirichlet(3),
    "gumbel softmax": GumbelSoftmax(3, 0.7),
    "straight through": GumbelSoftmax(3, 0.7, straight_through=True),
    "deterministic": Deterministic(2),
    "bounded deterministic": Deterministic(2, BOUNDS),
    "product": Product((Categorical(3), SquashedGaussian(BOUNDS), MultiBinary(2))),
}
every = pytest.mark.parametrize("name", EVERY)


def noise_of(distribution: Distribution, rows: int, seed: int = 0, dtype: type = np.float64) -> np.ndarray:
    generator = np.random.default_rng(seed)
    shape = rows, distribution.noise.width
    if distribution.noise.kind == "normal":
        return generator.standard_normal(shape, dtype)
    return generator.random(shape, dtype)


def many(distribution: Distribution, inputs: list[float], seed: int = 0) -> np.ndarray:
    rows = np.tile(np.array(inputs), (COUNT, 1))
    return distribution.sample(NN, rows, noise_of(distribution, COUNT, seed))


# -- the right distribution ------------------------------------------------------------------------------------------


def test_categorical_samples_come_as_often_as_their_probabilities_say() -> None:
    logits = [0.5, -1.0, 2.0, -np.inf, 0.0]
    found = many(Categorical(5, start=3), logits)
    counts = np.bincount(found - 3, minlength=5)
    assert counts[3] == 0
    expected = special.softmax(logits) * COUNT
    keep = [0, 1, 2, 4]
    assert stats.chisquare(counts[keep], expected[keep]).pvalue > LEAST_CHANCE


def test_samples_of_several_choices_are_independent() -> None:
    logits = [0.3, -0.4, 1.0, 0.2, -0.9]
    found = many(MultiCategorical((3, 2)), logits)
    counts = np.bincount(found[:, 0] * 2 + found[:, 1], minlength=6)
    expected = np.outer(special.softmax(logits[:3]), special.softmax(logits[3:])).ravel() * COUNT
    assert stats.chisquare(counts, expected).pvalue > LEAST_CHANCE


def test_multi_binary_samples() -> None:
    logits = [0.5, -2.0]
    found = many(MultiBinary(2), logits)
    counts = np.bincount(found[:, 0] * 2 + found[:, 1], minlength=4)
    yes = special.expit(logits)
    expected = np.outer([1 - yes[0], yes[0]], [1 - yes[1], yes[1]]).ravel() * COUNT
    assert stats.chisquare(counts, expected).pvalue > LEAST_CHANCE


def test_gaussian_samples() -> None:
    found = many(Gaussian(2), [1.0, -2.0, 0.5, -1.0])
    assert stats.kstest(found[:, 0], stats.norm(1.0, np.exp(0.5)).cdf).pvalue > LEAST_CHANCE
    assert stats.kstest(found[:, 1], stats.norm(-2.0, np.exp(-1.0)).cdf).pvalue > LEAST_CHANCE


def test_squashed_gaussian_samples() -> None:
    found = many(SquashedGaussian(BOUNDS), [0.4, -0.3, 0.2, -0.5])
    place = np.arctanh((found - [-1, 0]) / [2, 0.25] - 1)
    assert stats.kstest(place[:, 0], stats.norm(0.4, np.exp(0.2)).cdf).pvalue > LEAST_CHANCE
    assert stats.kstest(place[:, 1], stats.norm(-0.3, np.exp(-0.5)).cdf).pvalue > LEAST_CHANCE


def test_beta_samples() -> None:
    inputs = np.array([0.4, -3.0, 0.2, 2.5])
    found = many(Beta(BOUNDS), inputs.tolist())
    concentrations = 1 + np.logaddexp(0, inputs)
    for i, (low, width) in enumerate([(-1, 4), (0, 0.5)]):
        beta = stats.beta(concentrations[i], concentrations[2 + i], loc=low, scale=width)
        assert stats.kstest(found[:, i], beta.cdf).pvalue > LEAST_CHANCE


@pytest.mark.parametrize("logs", [[0.5, 1.5, -0.5], [-2.0, -3.0, -2.5], [4.0, 4.5, 0.0]])
def test_dirichlet_samples(logs: list[float]) -> None:
    found = many(Dirichlet(3), logs)
    concentrations = np.exp(logs)
    np.testing.assert_allclose(found.sum(1), 1)
    for i in range(3):  # each share is beta-distributed
        beta = stats.beta(concentrations[i], concentrations.sum() - concentrations[i])
        assert stats.kstest(found[:, i], beta.cdf).pvalue > LEAST_CHANCE


def test_gumbel_softmax_samples_are_near_the_choice_that_its_softmax_makes() -> None:
    logits = [0.5, -1.0, 1.0]
    expected = special.softmax(logits) * COUNT
    for distribution in (GumbelSoftmax(3, 0.1), GumbelSoftmax(3, 5.0, straight_through=True)):
        found = many(distribution, logits)
        np.testing.assert_allclose(found.sum(1), 1)
        assert stats.chisquare(np.bincount(found.argmax(1), minlength=3), expected).pvalue > LEAST_CHANCE
    assert np.array_equal(np.sort(found, 1), np.tile([0.0, 0.0, 1.0], (COUNT, 1)))
    soft = many(GumbelSoftmax(2, 0.8), [0.3, -0.6])[:, 0]
    # Of two parts the logarithm of the odds is (0.9 + a logistic number) / temperature.
    assert stats.kstest(special.logit(soft) * 0.8 - 0.9, stats.logistic.cdf).pvalue > LEAST_CHANCE


# -- one step and two ------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_one_step_gives_what_two_give(name: str, dtype: type, rows: int) -> None:
    distribution, nn = EVERY[name], NumpyOps(dtype)
    inputs = np.random.default_rng(1).normal(size=(rows, distribution.parameter_size)).astype(dtype)
    noise = noise_of(distribution, rows, 2, dtype)
    actions, log_prob = distribution.sample_and_log_prob(nn, inputs, noise)
    assert np.array_equal(actions, distribution.sample(nn, inputs, noise))
    single = isinstance(distribution, Categorical)
    assert actions.shape == ((rows,) if single else (rows, distribution.action_size)) and log_prob.shape == (rows,)
    if distribution.discrete:
        assert actions.dtype == (np.int8 if isinstance(distribution, MultiBinary) else np.int64)
    else:
        assert actions.dtype == dtype
    assert log_prob.dtype == dtype
    if name != "straight through":  # its density is that of the parts before they were rounded
        again = distribution.log_prob(nn, inputs, actions)
        assert again.dtype == dtype
        np.testing.assert_allclose(log_prob, again, rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-4)
    for found in (distribution.entropy(nn, inputs), distribution.kl(nn, inputs, inputs)):
        assert found.shape == (rows,) and found.dtype == dtype
    assert distribution.mode(nn, inputs).shape == actions.shape


@every
def test_rows_do_not_depend_on_each_other(name: str) -> None:
    distribution = EVERY[name]
    inputs = np.random.default_rng(1).normal(size=(9, distribution.parameter_size)).astype(np.float32)
    noise = noise_of(distribution, 9, 2, np.float32)
    together = distribution.sample_and_log_prob(NN32, inputs, noise)
    for row in range(9):
        one = slice(row, row + 1)
        alone = distribution.sample_and_log_prob(NN32, inputs[one], noise[one])
        for whole, part in zip(together, alone, strict=True):
            assert whole[one].tobytes() == part.tobytes()


def test_actions_near_a_bound_have_their_exact_density_when_they_are_drawn() -> None:
    distribution = SquashedGaussian(Bounds((-1.0,), (1.0,)))
    inputs, noise = np.array([[12.0, 0.0]], np.float32), np.array([[1.0]], np.float32)
    actions, log_prob = distribution.sample_and_log_prob(NN32, inputs, noise)
    assert actions[0, 0] == 1.0
    exact = stats.norm.logpdf(1.0) - 2 * (np.log(2) - 13 - np.log1p(np.exp(-26)))
    assert log_prob[0] == pytest.approx(exact, rel=1e-6)
    assert np.isfinite(distribution.log_prob(NN32, inputs, actions)).all()


# -- extremes --------------------------------------------------------------------------------------------------------

EXTREMES = [0.0, 1.0, -30.0, 30.0, 1e4, -1e4, 3e38, -3e38]


@every
@given(data=st.data())
def test_extreme_inputs_and_noise_give_no_nan(name: str, data: st.DataObject) -> None:
    distribution = EVERY[name]
    numbers = st.sampled_from(EXTREMES[:6] if "gauss" in name or name in ("deterministic", "product") else EXTREMES)
    width = distribution.parameter_size
    inputs = np.array(data.draw(st.lists(numbers, min_size=width, max_size=width)), np.float32)[None]
    others = np.array(data.draw(st.lists(numbers, min_size=width, max_size=width)), np.float32)[None]
    edges = st.sampled_from([-6.0, 0.0, 6.0] if distribution.noise.kind == "normal" else [0.0, 0.5, 1 - 2.0**-24])
    size = distribution.noise.width
    noise = np.array(data.draw(st.lists(edges, min_size=size, max_size=size)), np.float32).reshape(1, size)
    with np.errstate(over="ignore"):  # the difference of the lowest and the highest float
        actions, log_prob = distribution.sample_and_log_prob(NN32, inputs, noise)
        found = {
            "actions": actions,
            "log_prob": log_prob,
            "log_prob of the actions": distribution.log_prob(NN32, inputs, actions),
            "mode": distribution.mode(NN32, inputs),
            "entropy": distribution.entropy(NN32, inputs),
            "kl": distribution.kl(NN32, inputs, others),
        }
    for what, array in found.items():
        assert not np.isnan(array).any(), f"{what} of {inputs} with {noise}"
    for what in ("actions", "mode", "entropy"):
        assert np.isfinite(found[what]).all(), f"{what} of {inputs} with {noise}"


@pytest.mark.parametrize("never", [-np.inf, np.finfo(np.float32).min, -1e9])
@given(seed=st.integers(0, 10_000), size=st.integers(2, 8))
def test_actions_that_are_masked_are_never_drawn(never: float, seed: int, size: int) -> None:
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(40, size)).astype(np.float32)
    masked = generator.random((40, size)) < 0.6
    masked[np.arange(40), generator.integers(0, size, 40)] = False
    inputs[masked] = never
    uniforms = generator.choice(np.array([0.0, 2.0**-24, 0.5, 1 - 2.0**-24], np.float32), (40, 1))
    distribution, rows = Categorical(size), np.arange(40)
    actions, log_prob = distribution.sample_and_log_prob(NN32, inputs, uniforms)
    assert not masked[rows, actions].any() and not masked[rows, distribution.mode(NN32, inputs)].any()
    assert np.isfinite(log_prob).all()
    single = (~masked).sum(1) == 1
    assert not log_prob[single].any() and not distribution.entropy(NN32, inputs)[single].any()
    assert np.isfinite(distribution.entropy(NN32, inputs)).all()
    assert not distribution.kl(NN32, inputs, inputs).any()
    hidden = distribution.log_prob(NN32, inputs, masked.argmax(1))[masked.any(1)]
    assert (hidden < -1e8).all()


@pytest.mark.parametrize("name", ["squashed gaussian", "beta", "bounded deterministic"])
@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    numbers=st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=2),
    noise=st.floats(0, 1 - 2.0**-24, width=32),
)
def test_actions_stay_inside_their_bounds(
    name: str, low: float, width: float, numbers: list[float], noise: float
) -> None:
    bounds = Bounds((float(np.float32(low)),), (float(np.float32(low + max(width, abs(low) * 1e-6))),))
    distribution = {
        "squashed gaussian": SquashedGaussian(bounds),
        "beta": Beta(bounds),
        "bounded deterministic": Deterministic(1, bounds),
    }[name]
    inputs = np.array([numbers[: distribution.parameter_size]], np.float32)
    drawn = distribution.sample(NN32, inputs, np.full((1, distribution.noise.width), noise, np.float32))
    for actions in (drawn, distribution.mode(NN32, inputs)):
        assert actions.dtype == np.float32
        assert np.float32(bounds.low[0]) <= actions[0, 0] <= np.float32(bounds.high[0])


def test_beta_samples_keep_off_their_bounds() -> None:
    """A concentration of 1 is the uniform distribution, whose first and last numbers would be bounds in float32."""
    distribution = Beta(Bounds((0.0,), (1.0,)))
    inputs, noise = np.full((2, 2), -1e4, np.float32), np.array([[0.0], [1 - 2.0**-24]], np.float32)
    found = distribution.sample(NN32, inputs, noise)[:, 0]
    assert found[0] == pytest.approx(1e-6) and 1 - found[1] == pytest.approx(1e-6, rel=0.1)


def test_small_concentrations_give_all_to_one_share() -> None:
    """The gamma-distributed numbers that shares are made of are then below the smallest float."""
    shapes = np.array([0.01, 0.05, 0.5, 20.0])
    for logs in (-600.0, -100.0, -50.0, -40.0, -1.0, 2.0):
        uniforms = special.gammainc(shapes, np.exp(logs))
        inside = (uniforms > 1e-12) & (uniforms < 1 - 1e-12)
        assert inside.any()
        np.testing.assert_allclose(log_gamma_quantile(shapes[inside], uniforms[inside]), logs, rtol=1e-6, atol=1e-9)
    inputs, noise = np.full((1, 3), -5.0, np.float32), np.array([[0.0, 1e-6, 0.0]], np.float32)
    assert Dirichlet(3).sample(NN32, inputs, noise).tolist() == [[0.0, 1.0, 0.0]]


# -- what is no action -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [2, 6, -1])
def test_an_action_that_does_not_exist_is_named(wrong: int) -> None:
    distribution = Categorical(3, start=3)
    with pytest.raises(DataError) as caught:
        distribution.log_prob(NN, np.zeros((2, 3)), np.array([3, wrong]))
    low, high = min(3, wrong), max(3, wrong)
    assert str(caught.value) == f"actions are {low} to {high}: 3 to 5 were expected"


def test_actions_may_be_whole_numbers_of_any_dtype() -> None:
    distribution, inputs = Categorical(3, start=1), np.random.default_rng(0).normal(size=(2, 3))
    expected = distribution.log_prob(NN, inputs, np.array([1, 3]))
    for dtype in (np.int8, np.uint8, np.int32, np.float32, np.float64):
        assert np.array_equal(distribution.log_prob(NN, inputs, np.array([1, 3], dtype)), expected)
