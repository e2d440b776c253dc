"""Noise on continuous actions: how large it is, how it drifts, what lanes remember of it, how configs describe it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.exploration_by_noise import exploration_of_policy
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.distributions.deterministic import Deterministic
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.action_noise import DRIFT, GaussianNoise, OrnsteinUhlenbeckNoise, RandomActions
from kernel_rllib.exploration.epsilon_greedy import Random
from kernel_rllib.exploration.exploration import NoiseProcess, StochasticSampling
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.reference.deterministic_policy_gradient import ornstein_uhlenbeck

NN: Any = NumpyOps()
POLICY = Deterministic(2)
ONE = (np.array([-1, -1], np.float32), np.array([1, 1], np.float32))
WIDE = (np.array([-1, -4], np.float32), np.array([1, np.inf], np.float32))


def normals(rows: int, width: int = 2) -> np.ndarray:
    """Return the same numbers each time."""
    return np.random.default_rng(5).standard_normal((rows, width), np.float32)


def given(actions: list[float], rows: int = 1) -> dict[str, np.ndarray]:
    """Return what a policy gives: the same action for each lane."""
    return {"action_dist_inputs": np.tile(np.array([actions], np.float32), (rows, 1))}


def test_gaussian_noise_has_its_deviation_times_the_scale() -> None:
    noise = GaussianNoise(POLICY, ONE, stddev=0.1, scale=lambda t: 0.5 if t == 7 else 2.0)
    for timestep, deviation in ((7, 0.05), (8, 0.2)):
        actions = noise.choose(NN, given([0.1, -0.2], 40_000), normals(40_000), timestep)
        assert actions.dtype == np.float32
        np.testing.assert_allclose(actions.mean(axis=0), [0.1, -0.2], atol=0.005)
        np.testing.assert_allclose(actions.std(axis=0), deviation, rtol=0.02)


def test_disturbed_actions_keep_to_the_bounds_of_each_component() -> None:
    noise = GaussianNoise(POLICY, WIDE, stddev=100.0, scale=lambda t: 1.0)
    actions = noise.choose(NN, given([0.0, 0.0], 100), normals(100), 0)
    assert (actions[:, 0].min(), actions[:, 0].max(), actions[:, 1].min()) == (-1, 1, -4)
    assert actions[:, 1].max() > 100
    assert noise.best(NN, given([0.3, 9.0])).tolist() == [[np.float32(0.3), 9.0]]
    assert noise.recorded(NN, {}) == {} and noise.keeps == ()


def test_drifting_noise_is_the_process_of_the_paper() -> None:
    noise = OrnsteinUhlenbeckNoise(POLICY, ONE, theta=0.15, sigma=0.2, base_scale=0.1, scale=lambda t: 3.0)
    assert isinstance(noise, NoiseProcess) and noise.memory() == {DRIFT: (2,)}
    memory = {DRIFT: np.zeros((4, 2), np.float32)}
    expected = np.zeros(8)
    for t in range(30):
        drawn = np.random.default_rng(t).standard_normal((4, 2), np.float32)
        expected = ornstein_uhlenbeck(expected, drawn.ravel(), 0.15, 0.2)
        moved = noise.advance(memory, drawn, t)
        np.testing.assert_allclose(moved.ravel(), expected, atol=1e-6)
    actions = noise.choose(NN, given([0.5, -0.5], 4), moved, 30)
    np.testing.assert_allclose(
        actions, np.clip([[0.5, -0.5]] + 3.0 * 0.1 * 2.0 * expected.reshape(4, 2), -1, 1), atol=1e-6
    )


def test_without_bounds_the_drift_counts_as_for_a_width_of_one() -> None:
    noise = OrnsteinUhlenbeckNoise(POLICY, WIDE, theta=0.15, sigma=0.2, base_scale=0.1, scale=lambda t: 1.0)
    actions = noise.choose(NN, given([0.0, 0.0]), np.ones((1, 2), np.float32), 0)
    np.testing.assert_allclose(actions, [[0.2, 0.1]], rtol=1e-6)


def test_first_actions_are_uniform_between_the_bounds() -> None:
    bounds = (np.array([-1, 2], np.float32), np.array([1, 6], np.float32))
    first = RandomActions(bounds, GaussianNoise(POLICY, bounds, stddev=0.0, scale=lambda t: 1.0), steps=10)
    actions = first.choose(NN, given([0.0, 3.0], 40_000), normals(40_000), 9)
    assert actions.dtype == np.float32
    for column, (low, high) in zip(actions.T, ((-1, 1), (2, 6)), strict=True):
        shares, _ = np.histogram(column, bins=10, range=(low, high))
        assert shares.sum() == 40_000
        np.testing.assert_allclose(shares / 40_000, 0.1, atol=0.01)
    assert first.choose(NN, given([0.5, 3.0]), normals(1), 10).tolist() == [[0.5, 3.0]]
    assert first.best(NN, given([0.5, 3.0])).tolist() == [[0.5, 3.0]]


def test_components_without_bounds_begin_between_minus_one_and_one() -> None:
    first = RandomActions(WIDE, StochasticSampling(POLICY, records=False), steps=1)
    actions = first.choose(NN, given([0.0, 0.0], 1000), normals(1000), 0)
    assert -1 <= actions.min() < -0.9 and 0.9 < actions.max() <= 1


def test_noise_begins_to_drift_when_actions_are_no_longer_random() -> None:
    noise = OrnsteinUhlenbeckNoise(POLICY, ONE, theta=0.15, sigma=0.2, base_scale=0.1, scale=lambda t: 1.0)
    first = RandomActions(ONE, noise, steps=5)
    assert isinstance(first, NoiseProcess) and first.memory() == {DRIFT: (2,)}
    memory, drawn = {DRIFT: np.zeros((1, 2), np.float32)}, normals(1)
    np.testing.assert_array_equal(first.advance(memory, drawn, 4), drawn)
    assert not memory[DRIFT].any()
    np.testing.assert_allclose(first.advance(memory, drawn, 5), 0.2 * drawn, rtol=1e-6)
    assert memory[DRIFT].all()
    still = RandomActions(ONE, GaussianNoise(POLICY, ONE, stddev=0.1, scale=lambda t: 1.0), steps=0)
    assert still.memory() == {}
    np.testing.assert_array_equal(still.advance({}, drawn, 5), drawn)


def test_configs_describe_noise_as_rllib_does() -> None:
    settings = {"type": "GaussianNoise", "random_timesteps": 100, "stddev": 0.5, "scale_timesteps": 50}
    made = exploration_of_policy({**settings, "final_scale": 0.5}, POLICY, ONE)
    assert isinstance(made, RandomActions)
    drawn, zero = np.full((1, 2), 0.4, np.float32), given([0.0, 0.0])
    assert made.choose(NN, zero, drawn, 99)[0, 0] > 0.3  # the share of normal numbers below 0.4, from -1 to 1
    for timestep, scale in ((100, 1.0), (125, 0.75), (150, 0.5), (900, 0.5)):
        np.testing.assert_allclose(made.choose(NN, zero, drawn, timestep), 0.4 * 0.5 * scale, rtol=1e-6)
    bare = exploration_of_policy({"type": "OrnsteinUhlenbeckNoise", "random_timesteps": 0}, POLICY, ONE)
    assert isinstance(bare, OrnsteinUhlenbeckNoise)
    stepped = {"type": "GaussianNoise", "random_timesteps": 0, "scale_schedule": [[0, 1.0], [10, 3.0]]}
    np.testing.assert_allclose(exploration_of_policy(stepped, POLICY, ONE).choose(NN, zero, drawn, 5), 0.08, rtol=1e-6)


def test_configs_describe_draws_and_random_actions() -> None:
    assert isinstance(exploration_of_policy({"type": "StochasticSampling"}, POLICY, ONE), StochasticSampling)
    discrete = {"type": "ray.rllib.utils.exploration.StochasticSampling", "random_timesteps": 3}
    assert isinstance(exploration_of_policy(discrete, Categorical(3), None), Random)
    always = exploration_of_policy({"type": "Random"}, POLICY, ONE)
    assert len(set(always.choose(NN, given([0.0, 0.0], 9), normals(9), 10**9)[:, 0].tolist())) == 9
    class_itself = exploration_of_policy({"type": GaussianNoise}, POLICY, ONE)
    assert isinstance(class_itself, RandomActions)


@pytest.mark.parametrize(
    ("settings", "bounds", "message"),
    [
        (
            {"type": "EpsilonGreedy"},
            ONE,
            "type 'EpsilonGreedy', which a policy .* take one of StochasticSampling, Random",
        ),
        (
            {"type": "GaussianNoise", "sttdev": 1},
            ONE,
            "'sttdev', which GaussianNoise does not take; did you mean 'stddev'",
        ),
        ({"type": "Random", "zzz": 1}, ONE, "'zzz', which Random does not take; it takes nothing else"),
        (
            {"type": "GaussianNoise"},
            None,
            "disturbs continuous actions, and these are discrete: take 'StochasticSampling'",
        ),
    ],
)
def test_wrong_descriptions_say_what_there_is(settings: dict[str, Any], bounds: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        exploration_of_policy(settings, Categorical(2) if bounds is None else POLICY, bounds)


def test_draws_for_replay_record_nothing() -> None:
    silent = StochasticSampling(POLICY, records=False)
    assert silent.keeps == () and silent.recorded(NN, {}) == {}
    assert StochasticSampling(POLICY).keeps == ("action_dist_inputs",)
