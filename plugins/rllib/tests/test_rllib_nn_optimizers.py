"""Optimizers and clipping over flat vectors, against their equations in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.nn.clipping import clip_by_global_norm, clip_by_norm, clip_by_value, clip_gradient, norm
from kernel_rllib.nn.optimizers import OPTIMIZERS, optimizer
from kernel_rllib.nn.parameters import ParameterTable

Rule = Callable[[np.ndarray, list[np.ndarray], float], np.ndarray]


def adam(x: np.ndarray, gradients: list[np.ndarray], rate: float, betas: tuple[float, float] = (0.9, 0.999),
         epsilon: float = 1e-8, weight_decay: float = 0.0, decoupled: float = 0.0) -> np.ndarray:  # fmt: skip
    m = v = np.zeros_like(x)
    for t, g in enumerate(gradients, 1):
        g = g + weight_decay * x
        x = x * (1 - rate * decoupled)
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        x = x - rate * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + epsilon)
    return x


def rmsprop(x: np.ndarray, gradients: list[np.ndarray], rate: float, alpha: float = 0.99, epsilon: float = 1e-8,
            momentum: float = 0.0, centered: bool = False, weight_decay: float = 0.0) -> np.ndarray:  # fmt: skip
    square = mean = velocity = np.zeros_like(x)
    for g in gradients:
        g = g + weight_decay * x
        square, mean = alpha * square + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
        change = g / (np.sqrt(square - mean * mean if centered else square) + epsilon)
        velocity = momentum * velocity + change
        x = x - rate * (velocity if momentum else change)
    return x


def sgd(x: np.ndarray, gradients: list[np.ndarray], rate: float, momentum: float = 0.0, dampening: float = 0.0,
        nesterov: bool = False, weight_decay: float = 0.0) -> np.ndarray:  # fmt: skip
    velocity: Any = None
    for g in gradients:
        g = g + weight_decay * x
        if momentum:
            velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
            g = g + momentum * velocity if nesterov else velocity
        x = x - rate * g
    return x


CASES: list[tuple[str, Any, dict[str, Any]]] = [
    ("adam", adam, {}),
    ("adam", adam, {"betas": (0.5, 0.9), "epsilon": 0.01, "weight_decay": 0.1}),
    ("adamw", lambda x, g, rate: adam(x, g, rate, decoupled=0.01), {}),
    ("adamw", lambda x, g, rate, weight_decay: adam(x, g, rate, decoupled=weight_decay), {"weight_decay": 0.3}),
    ("rmsprop", rmsprop, {}),
    ("rmsprop", rmsprop, {"alpha": 0.8, "momentum": 0.9, "centered": True, "weight_decay": 0.1, "epsilon": 0.1}),
    ("sgd", sgd, {}),
    ("sgd", sgd, {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("sgd", sgd, {"momentum": 0.9, "nesterov": True}),
]


@pytest.mark.parametrize(("name", "rule", "settings"), CASES)
@pytest.mark.parametrize("size", [5, 40_000])
def test_steps_follow_the_equations(name: str, rule: Rule, settings: dict[str, Any], size: int) -> None:
    generator = np.random.default_rng(0)
    start, gradients = generator.normal(size=size), list(generator.normal(size=(7, size)))
    expected = rule(start, gradients, 0.05, **settings)  # type: ignore[call-arg]
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-4)):
        one, vector = optimizer(name, size, dtype=dtype, **settings), start.astype(dtype)
        for gradient in gradients:
            given = gradient.astype(dtype)
            one.step(vector, given, 0.05)
            assert (given == gradient.astype(dtype)).all()
        assert vector.dtype == dtype
        np.testing.assert_allclose(vector, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "rule", "settings"), CASES)
def test_a_state_goes_on_to_the_same_bits(name: str, rule: Rule, settings: dict[str, Any]) -> None:
    gradients = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
    one, whole = optimizer(name, 9, **settings), np.ones(9, np.float32)
    for gradient in gradients:
        one.step(whole, gradient, 0.05)
    first, second, halves = optimizer(name, 9, **settings), optimizer(name, 9, **settings), np.ones(9, np.float32)
    for gradient in gradients[:3]:
        first.step(halves, gradient, 0.05)
    state = first.state()
    second.set_state(state)
    first.step(halves.copy(), gradients[5], 0.05)  # changes neither the state that was returned nor the other's
    for gradient in gradients[3:]:
        second.step(halves, gradient, 0.05)
    assert (whole == halves).all()
    assert state["steps"] == 3 and second.state()["steps"] == 6


def test_a_step_works_on_a_part_of_a_vector() -> None:
    vector, gradient = np.zeros(10, np.float32), np.ones(10, np.float32)
    optimizer("adam", 4).step(vector[3:7], gradient[3:7], 0.1)
    assert (vector != 0).tolist() == [False] * 3 + [True] * 4 + [False] * 3


def test_optimizers_refuse_what_does_not_fit() -> None:
    assert set(OPTIMIZERS) == {"adam", "adamw", "rmsprop", "sgd"}
    with pytest.raises(ConfigError, match="no optimizer 'lamb': take one of adam, adamw, rmsprop, sgd"):
        optimizer("lamb", 3)
    with pytest.raises(ConfigError, match=r"the optimizer 'adam' was given \{'momentum': 0.9\}: .*momentum"):
        optimizer("adam", 3, momentum=0.9)
    with pytest.raises(ConfigError, match="nesterov needs a momentum above zero and no dampening"):
        optimizer("sgd", 3, nesterov=True)
    one = optimizer("adam", 3)
    with pytest.raises(ModuleError, match=r"Adam was made for 3 parameters, and was given a vector of shape \(4,\)"):
        one.step(np.zeros(4, np.float32), np.zeros(4, np.float32), 0.1)
    with pytest.raises(ModuleError, match=r"with a gradient of shape \(2,\)"):
        one.step(np.zeros(3, np.float32), np.zeros(2, np.float32), 0.1)
    with pytest.raises(ModuleError, match=r"state of Adam consists of .*'mean': \(3,\).*given .*'mean': \(4,\)"):
        one.set_state(optimizer("adam", 4).state())
    with pytest.raises(ModuleError, match="take the state of the same kind of optimizer"):
        one.set_state(optimizer("sgd", 3).state())


# -- clipping ------------------------------------------------------------------------------------------------------

TABLE = ParameterTable({"a": (2,), "b": (2,)})


def test_the_global_norm_is_limited() -> None:
    gradient = np.array([3, 0, 0, 4], np.float32)
    assert clip_by_global_norm(gradient, 10) == 5 and gradient.tolist() == [3, 0, 0, 4]
    assert clip_by_global_norm(gradient, 5) == 5 and gradient.tolist() == [3, 0, 0, 4]
    assert clip_by_global_norm(gradient, 1) == 5
    np.testing.assert_allclose(gradient, [0.6, 0, 0, 0.8], rtol=1e-6)
    exact = np.array([3.0, 4.0])
    clip_by_global_norm(exact, 1)
    assert 1 - 3e-7 < norm(exact) < 1 - 1e-7
    assert clip_by_global_norm(np.zeros(4, np.float32), 1) == 0


def test_each_parameter_is_limited() -> None:
    gradient = np.array([3, 4, 0, 0.5], np.float32)
    assert clip_by_norm(gradient, TABLE, 1) == 5
    np.testing.assert_allclose(gradient, [0.6, 0.8, 0, 0.5], rtol=1e-6)


def test_each_number_is_limited() -> None:
    gradient = np.array([3, -4, 0, 0.5], np.float32)
    clip_by_value(gradient, 1)
    assert gradient.tolist() == [1, -1, 0, 0.5]


def test_clipping_by_the_name_of_a_configuration() -> None:
    for by, expected in (("global_norm", [0.36, 0.48, 0, 0.8]), ("norm", [0.6, 0.8, 0, 1]), ("value", [1, 1, 0, 1])):
        gradient = np.array([3, 4, 0, 20 / 3])
        assert clip_gradient(gradient, TABLE, by, None) == pytest.approx(25 / 3)
        assert gradient.tolist() == [3, 4, 0, 20 / 3]
        assert clip_gradient(gradient, TABLE, by, 1.0) == pytest.approx(25 / 3)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5)
    with pytest.raises(ConfigError, match="grad_clip_by is 'length': take 'global_norm', 'norm' or 'value'"):
        clip_gradient(gradient, TABLE, "length", 1.0)


def test_what_is_not_finite_stays_as_it_is() -> None:
    for number in (np.nan, np.inf):
        gradient = np.array([1, number, 2, 3], np.float32)
        assert not np.isfinite(clip_by_global_norm(gradient, 1)) and not np.isfinite(norm(gradient))
        assert not np.isfinite(clip_by_norm(gradient, TABLE, 100))
        np.testing.assert_array_equal(gradient, [1, number, 2, 3])
