"""Q-networks: noise on weights as the paper defines it, and values of distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.modules.noisy import NoisyDense, scaled_noise
from kernel_rllib.modules.q_network import Q_LOGITS, QNetwork, QNetworkOptions
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.reference import distributional_q_learning

RANDOM = np.random.default_rng(4)


def noisy_parameters(layer: NoisyDense) -> dict[str, Any]:
    """Return parameters of which none is zero, in float64."""
    return {parameter.name: RANDOM.normal(size=parameter.shape) for parameter in layer.parameters()}


@pytest.mark.parametrize("activation", [None, "linear", "relu", "swish"])
def test_noise_on_rows_is_noise_on_weights(activation: str | None) -> None:
    layer = NoisyDense("a", 5, 3, activation, first=2)
    parameters, x, drawn = noisy_parameters(layer), RANDOM.normal(size=(7, 5)), RANDOM.normal(size=(7, 12))
    found = layer(NumpyOps(np.float64), parameters, x, scaled_noise(drawn))
    for row in range(7):
        f = [np.sign(e) * np.sqrt(abs(e)) for e in drawn[row]]
        before, after = np.array(f[2:7]), np.array(f[7:10])
        weight = parameters["a/weight"] + parameters["a/weight_sigma"] * np.outer(before, after)
        y = x[row] @ weight + parameters["a/bias"] + parameters["a/bias_sigma"] * after
        expected = {"relu": np.maximum(y, 0), "swish": y / (1 + np.exp(-y))}.get(activation or "", y)
        np.testing.assert_allclose(found[row], expected, rtol=1e-12)


def test_without_noise_the_means_of_weights_count() -> None:
    layer = NoisyDense("a", 5, 3, "relu")
    parameters, x = noisy_parameters(layer), RANDOM.normal(size=(7, 5))
    found = layer(NumpyOps(np.float64), parameters, x, None)
    np.testing.assert_allclose(found, np.maximum(x @ parameters["a/weight"] + parameters["a/bias"], 0), rtol=1e-12)


def test_noise_begins_as_large_as_the_paper_says() -> None:
    module = QNetwork(4, 2, QNetworkOptions(hidden=(9,), noisy=True, sigma=0.6))
    views = module.table.views(module.initial(np.random.default_rng(0)))
    np.testing.assert_allclose(views["value/0/weight_sigma"], 0.6 / 3, rtol=1e-6)
    np.testing.assert_allclose(views["value/0/bias_sigma"], 0.6 / 3, rtol=1e-6)
    assert abs(views["advantage/0/weight"]).max() <= 1 / 3


def test_layers_have_numbers_of_noise_of_their_own() -> None:
    module = QNetwork(4, 2, QNetworkOptions(hidden=(9,), heads=(6,), noisy=True))
    # Of the advantages 9 + 6 and 6 + 2 numbers, of the value 9 + 6 and 6 + 1.
    assert module.noise_width == 15 + 8 + 15 + 7
    layers = [layer for layer in (*module.advantage, *module.value) if isinstance(layer, NoisyDense)]
    assert [layer.first for layer in layers] == [0, 15, 23, 38]
    assert QNetwork(4, 2, QNetworkOptions(heads=(6,))).noise_width == 0


@pytest.mark.parametrize("rows", [1, 6])
def test_gradients_reach_means_and_levels_of_noise(rows: int) -> None:
    module = QNetwork(3, 2, QNetworkOptions(hidden=(4,), heads=(4,), noisy=True, activation="tanh", atoms=3))
    numpy = backend("numpy")
    vector = numpy.vector(RANDOM.normal(size=module.table.size))
    inputs = {"obs": RANDOM.normal(size=(6, 3)), "noise": RANDOM.normal(size=(rows, module.noise_width))}
    slope = RANDOM.normal(size=(6, 2, 3))

    def loss(nn: Any, parameters: Any) -> Any:
        return nn.sum(module.train(nn, parameters, inputs)[Q_LOGITS] * nn.constant(slope)), {}

    _, gradient = numpy.gradient(loss, vector, module.table)
    gradient = gradient.copy()
    for place in range(0, module.table.size, 5):
        ends = []
        for step in (1e-6, -1e-6):
            moved = vector.copy()
            moved[place] += step
            ends.append(float(numpy.evaluate(loss, moved, module.table)[0]))
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-6)


def test_values_of_distributions_are_their_means() -> None:
    module = QNetwork(3, 2, QNetworkOptions(hidden=(4,), atoms=5, v_min=-2.0, v_max=6.0))
    nn = NumpyOps(np.float64)
    parameters = module.table.views(RANDOM.normal(size=module.table.size))
    inputs = {"obs": RANDOM.normal(size=(6, 3))}
    logits = module.train(nn, parameters, inputs)[Q_LOGITS]
    expected = distributional_q_learning.categorical_means(logits, -2.0, 6.0)
    np.testing.assert_allclose(module.explore(nn, parameters, inputs)["q_values"], expected, rtol=1e-12)


def test_the_best_known_action_is_asked_for_without_noise() -> None:
    module = QNetwork(3, 2, QNetworkOptions(hidden=(4,), noisy=True))
    nn, parameters = NumpyOps(np.float64), module.table.views(RANDOM.normal(size=module.table.size))
    inputs = {"obs": RANDOM.normal(size=(6, 3)), "noise": RANDOM.normal(size=(6, module.noise_width))}
    without = module.explore(nn, parameters, {"obs": inputs["obs"]})["q_values"]
    np.testing.assert_array_equal(module.infer(nn, parameters, inputs)["q_values"], without)
    assert not np.allclose(module.explore(nn, parameters, inputs)["q_values"], without)
