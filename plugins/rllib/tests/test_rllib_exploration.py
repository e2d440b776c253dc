"""Explorations: which actions they choose, how often, and by which noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.exploration.epsilon_greedy import (
    EpsilonGreedy,
    PerWorkerEpsilonGreedy,
    Random,
    SoftQ,
    index_of,
    per_worker_epsilon,
)
from kernel_rllib.nn.schedules import ConstantSchedule, PiecewiseSchedule

NN: Any = None
"""These choose by plain numbers."""


def uniforms(rows: int, width: int) -> np.ndarray:
    """Return the same numbers each time."""
    return np.random.default_rng(3).random((rows, width), np.float32)


def test_without_epsilon_the_best_action_is_taken() -> None:
    outputs = {"q_values": np.array([[1.0, 3.0, 2.0], [5.0, 1.0, 0.0]])}
    assert EpsilonGreedy(ConstantSchedule(0.0)).choose(NN, outputs, uniforms(2, 2), 0).tolist() == [1, 0]


def test_epsilon_is_how_often_any_action_is_taken() -> None:
    rows = 40_000
    outputs = {"q_values": np.tile(np.array([[0.0, 1.0, 0.0, 0.0]]), (rows, 1))}
    epsilon = EpsilonGreedy(PiecewiseSchedule([(99, 0.4), (100, 0.0)]))
    shares = np.bincount(epsilon.choose(NN, outputs, uniforms(rows, 2), 99), minlength=4) / rows
    np.testing.assert_allclose(shares, [0.1, 0.7, 0.1, 0.1], atol=0.01)
    assert (epsilon.choose(NN, outputs, uniforms(rows, 2), 100) == 1).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_soft_q_draws_in_proportion_to_exponentials(temperature: float) -> None:
    values = np.array([[0.0, 1.0, -1.0]])
    rows = 40_000
    chosen = SoftQ(temperature).choose(NN, {"q_values": np.tile(values, (rows, 1))}, uniforms(rows, 1), 0)
    expected = np.exp(values[0] / temperature)
    np.testing.assert_allclose(np.bincount(chosen, minlength=3) / rows, expected / expected.sum(), atol=0.01)


def test_actions_that_may_not_be_taken_are_not() -> None:
    rows = 30_000
    values = np.tile(np.array([[-np.inf, 1.0, -np.inf, 0.0, -np.inf, 0.5]]), (rows, 1))
    outputs = {"q_values": values}
    for exploration in (EpsilonGreedy(1.0), Random(6, EpsilonGreedy(0.0), steps=9)):
        chosen = exploration.choose(NN, outputs, uniforms(rows, 2), 0)
        np.testing.assert_allclose(np.bincount(chosen, minlength=6) / rows, [0, 1 / 3, 0, 1 / 3, 0, 1 / 3], atol=0.01)
    assert set(SoftQ(1.0).choose(NN, outputs, uniforms(rows, 1), 0)) == {1, 3, 5}
    assert Random(6, SoftQ(1.0), steps=9).choose(NN, {}, uniforms(rows, 1), 0).max() == 5


def test_soft_q_takes_large_values() -> None:
    chosen = SoftQ().choose(NN, {"q_values": np.array([[1e30, 0.0], [-1e30, 0.0]])}, uniforms(2, 1), 0)
    assert chosen.tolist() == [0, 1]


def test_first_steps_are_random_and_then_another_exploration_chooses() -> None:
    rows = 9_000
    outputs = {"q_values": np.tile(np.array([[0.0, 1.0, 0.0]]), (rows, 1))}
    exploration = Random(3, EpsilonGreedy(ConstantSchedule(0.0)), steps=10)
    assert exploration.noise.width == 2
    shares = np.bincount(exploration.choose(NN, outputs, uniforms(rows, 2), 9), minlength=3) / rows
    np.testing.assert_allclose(shares, [1 / 3] * 3, atol=0.02)
    assert (exploration.choose(NN, outputs, uniforms(rows, 2), 10) == 1).all()


def test_runners_have_epsilons_far_apart() -> None:
    assert per_worker_epsilon(1, 8) == pytest.approx(0.4)
    assert per_worker_epsilon(8, 8) == pytest.approx(0.4**8)
    assert per_worker_epsilon(1, 1) == pytest.approx(0.4)


def test_a_runner_elsewhere_explores_as_much_as_its_number_says() -> None:
    exploration = PerWorkerEpsilonGreedy(ConstantSchedule(0.0))
    rows = 40_000
    outputs = {"q_values": np.tile(np.array([[0.0, 1.0]]), (rows, 1))}
    for index, epsilon in ((0, 0.0), (1, 0.4), (2, 0.4**4.5), (3, 0.4**8)):
        chosen = exploration.of_runner(index, 3).choose(NN, outputs, uniforms(rows, 2), 0)
        assert (chosen == 0).mean() == pytest.approx(epsilon / 2, abs=0.01)


def test_indices_are_within_bounds() -> None:
    assert index_of(np.array([0.0, 0.49, 0.999999, 1.0], np.float32), 2).tolist() == [0, 0, 1, 1]
