"""Choices one after another: probabilities, entropies and divergences are those of all pairs, one by one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.distributions.autoregressive import AutoregressiveCategorical
from kernel_rllib.errors import SpaceError
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.testing.gradients import finite_differences

NN = NumpyOps()
SIZES = (2, 3, 2)
SPACE = spaces.Tuple([spaces.Discrete(size) for size in SIZES])
DISTRIBUTION = AutoregressiveCategorical(SPACE)
PAIRS = list(itertools.product(*map(range, SIZES)))


def inputs(rows: int = 4, seed: int = 1) -> Any:
    """Return logits [N, P]."""
    return np.random.default_rng(seed).normal(size=(rows, DISTRIBUTION.parameter_size))


def shares(row: Any) -> dict[tuple[int, ...], float]:
    """Return how likely each sequence of choices is, by its definition."""
    first, second, third = row[:2], row[2:8].reshape(2, 3), row[8:].reshape(2, 3, 2)

    def softmax(logits: Any) -> Any:
        return np.exp(logits) / np.exp(logits).sum()

    return {(a, b, c): float(softmax(first)[a] * softmax(second[a])[b] * softmax(third[a, b])[c]) for a, b, c in PAIRS}


def test_probabilities_are_those_of_the_chain_rule() -> None:
    given = inputs(1)
    likely = shares(given[0])
    found = np.exp(DISTRIBUTION.log_prob(NN, np.repeat(given, len(PAIRS), 0), np.array(PAIRS, np.float32)))
    np.testing.assert_allclose(found, [likely[pair] for pair in PAIRS], rtol=1e-12)
    assert sum(found) == pytest.approx(1.0)


def test_entropy_and_divergence_are_exact() -> None:
    given, other = inputs(), inputs(seed=2)
    for row in range(len(given)):
        p, q = shares(given[row]), shares(other[row])
        entropy = -sum(share * math.log(share) for share in p.values())
        divergence = sum(share * math.log(share / q[pair]) for pair, share in p.items())
        assert DISTRIBUTION.entropy(NN, given)[row] == pytest.approx(entropy)
        assert DISTRIBUTION.kl(NN, given, other)[row] == pytest.approx(divergence)


def test_draws_come_as_often_as_they_are_likely_and_the_mode_goes_part_by_part() -> None:
    given = np.repeat(inputs(1), 20_000, 0).astype(np.float32)
    noise = np.random.default_rng(3).random((len(given), 3), np.float32)
    drawn, counts = np.unique(DISTRIBUTION.sample(NN, given, noise), axis=0, return_counts=True)
    likely = shares(given[0].astype(np.float64))
    for choice, count in zip(drawn, counts, strict=True):
        assert count / len(given) == pytest.approx(likely[tuple(choice.astype(int))], abs=0.015)
    first, second, third = given[0, :2], given[0, 2:8].reshape(2, 3), given[0, 8:].reshape(2, 3, 2)
    a = first.argmax()
    b = second[a].argmax()
    assert DISTRIBUTION.mode(NN, given[:1])[0].tolist() == [a, b, third[a, b].argmax()]


def test_gradients_are_those_of_finite_differences() -> None:
    table = ParameterTable({"logits": (4, DISTRIBUTION.parameter_size)})
    other, actions = inputs(seed=2), np.array(PAIRS[:4], np.float64)

    def loss(nn: Any, parameters: Any) -> Any:
        given = parameters["logits"]
        parts = DISTRIBUTION.log_prob(nn, given, nn.constant(actions)), DISTRIBUTION.entropy(nn, given)
        return nn.sum(parts[0] + 0.3 * parts[1] + DISTRIBUTION.kl(nn, nn.constant(other), given)), {}

    vector = inputs().ravel()
    _, gradient = NumpyBackend().gradient(loss, vector, table, None)
    np.testing.assert_allclose(gradient, finite_differences(loss, vector, table), atol=1e-8)


def test_actions_of_several_discrete_parts_are_integers() -> None:
    distribution = AutoregressiveCategorical(spaces.MultiDiscrete([2, 3]))
    drawn = distribution.sample(NN, np.zeros((5, 8), np.float32), np.random.default_rng(0).random((5, 2), np.float32))
    assert distribution.discrete and drawn.dtype == np.int64 and drawn.shape == (5, 2)
    assert distribution == AutoregressiveCategorical(spaces.MultiDiscrete([2, 3])) != DISTRIBUTION
    assert hash(distribution) == hash(AutoregressiveCategorical(spaces.MultiDiscrete([2, 3])))


@pytest.mark.parametrize("space", [
    spaces.Discrete(2), spaces.Box(0, 1, (2,)), spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,))]),
])  # fmt: skip
def test_other_spaces_are_refused(space: Any) -> None:
    with pytest.raises(SpaceError, match="and AutoregressiveCategorical chooses in a MultiDiscrete, or in a Tuple or"):
        AutoregressiveCategorical(space)
