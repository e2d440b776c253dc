"""Population based bandits: the model by hand, the choice of a point, and what it finds beside random changes."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest
from kernel_tune.arguments import ArgumentError
from kernel_tune.schedulers import PB2, PopulationBasedTraining
from kernel_tune.schedulers.pb2_model import TimeVaryingProcess, ages, covariance, distances, next_point
from kernel_tune.testing.simulation import simulate


def test_the_covariance_is_the_papers():
    a, b = np.array([[0.0, 0.5], [1.0, 1.0]]), np.array([[0.2, 0.1]])
    got = covariance(distances(a, b), ages(np.array([3.0, 5.0]), np.array([1.0])), 0.4, 0.2)
    first = np.exp(-(0.2**2 + 0.4**2) / (2 * 0.4**2)) * 0.8 ** (2 / 2)
    second = np.exp(-(0.8**2 + 0.9**2) / (2 * 0.4**2)) * 0.8 ** (4 / 2)
    assert got[:, 0] == pytest.approx([first, second])


def test_prediction_is_that_of_gaussian_process_regression():
    generator = np.random.default_rng(0)
    x, times = generator.random((12, 2)), np.arange(12.0)
    y = np.sin(4 * x[:, 0]) + x[:, 1]
    y = (y - y.mean()) / y.std()
    process = TimeVaryingProcess(x, times, y, np.empty((0, 2)), 12.0)
    points = generator.random((5, 2))
    kernel = covariance(distances(x, x), ages(times, times), process.length, process.epsilon)
    across = covariance(distances(points, x), ages(np.full(5, 12.0), times), process.length, process.epsilon)
    solved = np.linalg.solve(kernel + process.noise * np.eye(12), np.column_stack([y, across.T]))
    mean, deviation = process.predict(points)
    assert mean == pytest.approx(across @ solved[:, 0])
    left = 1 - np.einsum("ij,ji->i", across, solved[:, 1:])
    assert deviation == pytest.approx(np.sqrt(process.variance * left))


def test_points_that_are_pending_lower_the_deviation_but_not_the_mean():
    generator = np.random.default_rng(0)
    x, times, y = generator.random((8, 1)), np.zeros(8), generator.normal(size=8)
    point = np.array([[0.5]])
    without = TimeVaryingProcess(x, times, y, np.empty((0, 1)), 1.0)
    with_it = TimeVaryingProcess(x, times, y, point, 1.0)
    assert without.predict(point)[0] == pytest.approx(with_it.predict(point)[0])
    assert with_it.predict(point)[1][0] < without.predict(point)[1][0]


def test_the_next_point_is_near_the_best_of_a_smooth_function():
    generator = np.random.default_rng(1)
    x = generator.random((60, 2))
    y = -((x[:, 0] - 0.3) ** 2) - (x[:, 1] - 0.8) ** 2
    chosen = next_point(x, np.zeros(60), y, np.empty(0), 0.0, np.empty((0, 2)), generator)
    assert chosen == pytest.approx([0.3, 0.8], abs=0.1)


def test_old_observations_count_less():
    generator = np.random.default_rng(1)
    x = generator.random((60, 1))
    times = np.repeat([0.0, 40.0], 30)
    best = np.where(times == 0, 0.2, 0.8)
    chosen = next_point(x, times, -np.abs(x[:, 0] - best), np.empty(0), 41.0, np.empty((0, 1)), generator)
    assert chosen[0] == pytest.approx(0.8, abs=0.12)


def moving(config, state):
    """The best of x goes from 0.15 to 0.85, that of y back; being near both is worth most."""
    at, score = state
    best = 0.15 + 0.7 * min(at / 60, 1)
    gain = 1 - 4 * (config["x"] - best) ** 2 - 4 * (config["y"] - (1 - best)) ** 2
    return (at + 1, score + gain), score + gain


def test_it_follows_a_moving_optimum_better_than_random_changes():
    draw = {"x": lambda: random.random(), "y": lambda: random.random()}
    every = {"time_attr": "training_iteration", "perturbation_interval": 4}
    bandit, at_random = [], []
    for seed in range(3):
        configs = [{"x": x, "y": y} for x, y in np.random.default_rng(seed).random((8, 2))]
        run = partial(simulate, step=moving, start=(0, 0.0), configs=configs, slots=8, iterations=60)
        bandit.append(run(PB2(hyperparam_bounds={"x": [0, 1], "y": [0, 1]}, seed=seed, **every)).best_score())
        explorer = PopulationBasedTraining(hyperparam_mutations=draw, seed=seed, resample_probability=1, **every)
        at_random.append(run(explorer).best_score())
    assert sum(bandit) / 3 > sum(at_random) / 3 + 1


def test_values_stay_within_bounds_and_whole_ones_whole():
    scheduler = PB2(
        "training_iteration", perturbation_interval=3, hyperparam_bounds={"a": {"lr": [1e-4, 1e-1]}, "layers": [1, 8]},
        custom_explore_fn=lambda config: {**config, "seen": True},
    )  # fmt: skip
    done = simulate(scheduler, lambda config, at: at * config["a"]["lr"], [{"layers": 2}] * 6, iterations=30, slots=6)
    made = [event[4] for event in done.history if event[1] == "exploit"]
    assert len(made) > 3
    for config in made:
        assert 1e-4 <= config["a"]["lr"] <= 1e-1 and type(config["layers"]) is int and 1 <= config["layers"] <= 8
        assert config["seen"]
    assert done.lines["pbt_global.txt"]
    assert done.scheduler.debug_string().startswith("PB2: ")


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (None, "PB2 would change nothing: give hyperparam_bounds"),
        ({"x": [1]}, r"hyperparam_bounds\['x'\] is \[1\], but must be \[low, high\]"),
        ({"a": {"x": [2, 1]}}, r"hyperparam_bounds\['a'\]\['x'\] is \[2, 1\]"),
        ({"x": ["a", "b"]}, "two numbers"),
        (3, "hyperparam_bounds is 3, but must be a dict"),
    ],
)
def test_bounds_that_cant_be_used(bounds, message):
    with pytest.raises(ArgumentError, match=message):
        PB2(hyperparam_bounds=bounds)
