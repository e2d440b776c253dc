"""Torch and numpy agree to 1e-5: every operation, its gradient, backends, optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.optimizers import OPTIMIZERS, optimizer
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.nn.torch_backend import TorchBackend
from kernel_rllib.nn.torch_ops import TorchOps
from kernel_rllib.testing.gradients import check_gradient
from kernel_rllib.testing.operations import EXAMPLES, Example, loss_of, results_of


def drawn(example: Example, dtype: Any) -> list[np.ndarray]:
    return [np.asarray(value, dtype) for value in example.inputs(np.random.default_rng(11))]


def weights_for(example: Example, inputs: list[np.ndarray]) -> list[np.ndarray]:
    generator = np.random.default_rng(5)
    results = results_of(example, TorchOps(torch.float64), [torch.tensor(value) for value in inputs])
    return [generator.uniform(0.5, 1.5, tuple(result.shape)) for result in results]


@pytest.mark.parametrize("example", [example for example in EXAMPLES if not example.only_torch], ids=repr)
def test_values_agree_and_keep_the_type(example: Example) -> None:
    for dtype, torch_dtype, tolerance in ((np.float32, torch.float32, 1e-5), (np.float64, torch.float64, 1e-12)):
        inputs = drawn(example, dtype)
        plain = results_of(example, NumpyOps(dtype), inputs)
        in_torch = results_of(example, TorchOps(torch_dtype), [torch.tensor(value) for value in inputs])
        for one, other in zip(plain, in_torch, strict=True):
            assert np.shape(one) == tuple(other.shape)
            scale = max(1.0, float(np.abs(one).max()))
            np.testing.assert_allclose(one, other.numpy(), rtol=tolerance, atol=tolerance * scale)
            assert other.numpy().dtype == np.asarray(one).dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "example", [example for example in EXAMPLES if example.differentiable and not example.only_torch], ids=repr
)
def test_gradients_agree(example: Example, dtype: Any) -> None:
    tolerance = 1e-5 if dtype == np.float32 else 1e-9
    inputs = drawn(example, np.float64)
    loss = loss_of(example, weights_for(example, inputs))
    values = {f"input_{k}": value for k, value in enumerate(inputs)}
    table = ParameterTable({name: value.shape for name, value in values.items()})
    vector = table.vector(values, dtype)
    _, own = NumpyBackend().gradient(loss, vector, table)
    _, theirs = TorchBackend().gradient(loss, vector, table)
    assert isinstance(theirs, np.ndarray) and theirs.dtype == own.dtype == dtype
    np.testing.assert_allclose(own, theirs, rtol=tolerance, atol=tolerance * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example.only_torch], ids=repr)
def test_gradients_of_what_only_torch_can_do_are_those_of_finite_differences(example: Example) -> None:
    inputs = drawn(example, np.float64)
    loss = loss_of(example, weights_for(example, inputs))
    values = {f"input_{k}": value for k, value in enumerate(inputs)}
    check_gradient(loss, values, TorchBackend(), evaluator=TorchBackend())


def naive_convolution(x: np.ndarray, weight: np.ndarray, stride: int, sides: int) -> np.ndarray:
    x = np.pad(x, ((0, 0), (sides, sides), (sides, sides), (0, 0)))
    rows, columns = weight.shape[:2]
    height, width = (x.shape[1] - rows) // stride + 1, (x.shape[2] - columns) // stride + 1
    y = np.zeros((len(x), height, width, weight.shape[3]))
    for i in range(height):
        for j in range(width):
            patch = x[:, i * stride : i * stride + rows, j * stride : j * stride + columns]
            y[:, i, j] = np.einsum("nrci,rcio->no", patch, weight)
    return y


def test_a_convolution_is_a_sum_over_patches() -> None:
    generator = np.random.default_rng(0)
    x, weight = generator.normal(size=(2, 6, 7, 3)), generator.normal(size=(3, 3, 3, 4))
    nn = TorchOps(torch.float64)
    found = nn.conv2d(torch.tensor(x), torch.tensor(weight), None, 2, 1)
    np.testing.assert_allclose(found.numpy(), naive_convolution(x, weight, 2, 1), rtol=1e-10)
    for stride in (1, 2, 3):
        same = nn.conv2d(torch.tensor(x), torch.tensor(weight), None, stride, "same")
        assert tuple(same.shape[1:3]) == (-(-6 // stride), -(-7 // stride))
    np.testing.assert_allclose(
        nn.conv2d(torch.tensor(x), torch.tensor(weight), None, 1, "same").numpy(), naive_convolution(x, weight, 1, 1),
        rtol=1e-10,
    )  # fmt: skip


def test_attention_follows_its_equation() -> None:
    generator = np.random.default_rng(0)
    query, key, value = (generator.normal(size=shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 4)))
    mask = np.tri(3, 5, 2, dtype=bool)
    scores = np.where(mask, query @ key.swapaxes(1, 2) / 2, -np.inf)
    expected = NumpyOps(np.float64).softmax(scores) @ value
    nn = TorchOps(torch.float64)
    found = nn.attention(*map(nn.constant, (query, key, value, mask)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


def test_ties_and_bounds_have_the_same_gradients() -> None:
    table = ParameterTable({"x": (6,), "y": (6,)})
    vector = np.array([1, 2, 3, 3, 0, -1, 1, 1, 4, 3, 0, -1], np.float64)
    for loss in (
        lambda nn, p: nn.sum(nn.maximum(p["x"], p["y"]) * nn.constant(np.arange(6.0))),
        lambda nn, p: nn.sum(nn.minimum(p["x"], p["y"]) * nn.constant(np.arange(6.0))),
        lambda nn, p: nn.max(p["x"]) + nn.min(p["y"]),
        lambda nn, p: nn.sum(nn.clip(p["x"], -1, 3) * p["y"]),
        lambda nn, p: nn.sum(nn.clip(p["x"], nn.constant(np.full(6, -1.0)), nn.constant(np.full(6, 3.0))) * p["y"]),
        lambda nn, p: nn.sum(nn.relu(p["x"]) + nn.abs(p["y"]) + nn.leaky_relu(p["x"]) + nn.elu(p["y"])),
        lambda nn, p: nn.sum(nn.huber(p["x"] - p["y"]) + nn.huber(p["x"])),
    ):
        one = NumpyBackend().gradient(lambda nn, p, f=loss: (f(nn, p), {}), vector, table)[1].copy()
        other = TorchBackend().gradient(lambda nn, p, f=loss: (f(nn, p), {}), vector, table)[1]
        np.testing.assert_allclose(one, other, atol=1e-12)


# -- the backend ---------------------------------------------------------------------------------------------------

TABLE = ParameterTable({"policy/weight": (3, 2), "policy/bias": (2,), "value/weight": (3, 1)})
X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
VECTOR = np.random.default_rng(1).normal(size=TABLE.size).astype(np.float32)


def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
    x = nn.constant(X)
    y = nn.linear(x, params["policy/weight"], params["policy/bias"], "tanh")
    value = nn.linear(x, params["value/weight"])
    total = nn.mean(nn.square(y)) + nn.mean(value)
    return total, {"loss": total, "rows": nn.sum(y, -1), "mean": nn.mean(value), "number": 3, "numpy": np.float32(2)}


def test_metrics_gradients_and_frozen_parameters() -> None:
    vector = VECTOR.copy()
    for trainable in (None, ("policy/",), ("value", "policy/bias")):
        metrics, gradient = TorchBackend().gradient(loss, vector, TABLE, trainable)
        own_metrics, own = NumpyBackend().gradient(loss, vector, TABLE, trainable)
        np.testing.assert_allclose(own, gradient, atol=1e-6)
        assert metrics.keys() == own_metrics.keys()
        for name, value in metrics.items():
            assert type(value) is type(own_metrics[name])
            np.testing.assert_allclose(value, own_metrics[name], rtol=1e-5)
    assert np.array_equal(vector, VECTOR)


def test_the_gradient_is_one_array_and_follows_changes_of_the_vector() -> None:
    for vector in (VECTOR.copy(), TorchBackend().vector(VECTOR)):
        one = TorchBackend()
        _, first = one.gradient(loss, vector, TABLE)
        before = one.to_numpy(first).copy()
        vector *= 0.5
        _, second = one.gradient(loss, vector, TABLE)
        assert second is first and type(first) is type(vector)
        assert not np.allclose(before, one.to_numpy(second))
        vector *= 2
        np.testing.assert_allclose(one.to_numpy(one.gradient(loss, vector, TABLE)[1]), before, rtol=1e-6)


def test_evaluate_gives_numpy_arrays_without_gradients() -> None:
    def function(nn: Ops, params: Any) -> Any:
        y = nn.linear(nn.constant(X), params["policy/weight"])
        return y, {"inner": [y, 1]}

    found = TorchBackend().evaluate(function, VECTOR, TABLE)
    own = NumpyBackend().evaluate(function, VECTOR, TABLE)
    np.testing.assert_allclose(found[0], own[0], rtol=1e-5)
    assert isinstance(found[1]["inner"][0], np.ndarray) and found[1]["inner"][1] == 1


def test_errors_are_those_of_numpy() -> None:
    for one in (NumpyBackend(), TorchBackend()):
        with pytest.raises(ModuleError, match=r"the loss has shape \(3, 2\), and must be one number"):
            one.gradient(lambda nn, p: (p["policy/weight"] * 2, {}), VECTOR, TABLE)
        with pytest.raises(ModuleError, match=r"depends on none of the parameters .*: value/weight"):
            one.gradient(lambda nn, p: (nn.sum(p["policy/weight"]), {}), VECTOR, TABLE, ("value/",))
        with pytest.raises(ModuleError, match="below critic, and there are none: there are policy/weight"):
            one.gradient(loss, VECTOR, TABLE, ("critic",))


def test_a_vector_in_numpy_is_for_the_cpu() -> None:
    one = TorchBackend("meta")
    with pytest.raises(ModuleError, match=r"numpy was given to a backend on meta.*backend.vector\(values\)"):
        one.gradient(loss, VECTOR, TABLE)


def test_backends_by_name() -> None:
    assert (backend("torch").name, backend("torch", "cpu").name) == ("torch", "torch")
    assert TorchBackend().vector([1.0, 2.0]).dtype == torch.float32
    assert TorchBackend().vector(np.zeros(2)).dtype == torch.float64
    with pytest.raises(ConfigError, match="there is no backend 'jax': take 'numpy' or 'torch'"):
        backend("jax")


# -- optimizers ----------------------------------------------------------------------------------------------------

SETTINGS = [
    ("adam", {}), ("adam", {"betas": (0.8, 0.99), "epsilon": 1e-5}), ("adam", {"weight_decay": 0.1}),
    ("adamw", {}), ("adamw", {"weight_decay": 0.2}),
    ("rmsprop", {}), ("rmsprop", {"momentum": 0.9, "alpha": 0.9}), ("rmsprop", {"centered": True}),
    ("rmsprop", {"centered": True, "momentum": 0.5, "weight_decay": 0.1, "epsilon": 1e-3}),
    ("sgd", {}), ("sgd", {"momentum": 0.9}), ("sgd", {"momentum": 0.9, "nesterov": True}),
    ("sgd", {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
]  # fmt: skip
CLASSES: dict[str, Any] = {
    "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD,
}  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
@pytest.mark.parametrize("size", [7, 40_000])
def test_fifty_steps_are_those_of_torch(name: str, settings: dict[str, Any], size: int) -> None:
    generator = np.random.default_rng(0)
    start = generator.normal(size=size).astype(np.float32)
    parameter = torch.nn.Parameter(torch.tensor(start))
    theirs = CLASSES[name](
        [parameter], lr=0.0, **{"eps" if key == "epsilon" else key: value for key, value in settings.items()}
    )
    own, vector = optimizer(name, size, **settings), start.copy()
    wrapped, other = TorchBackend().optimizer(name, size, **settings), TorchBackend().vector(start)
    for step in range(50):
        gradient = (vector * 0.3 + generator.normal(size=size)).astype(np.float32)
        kept = gradient.copy()
        learning_rate = 0.01 * (1 + step % 3)
        parameter.grad = torch.tensor(gradient)
        theirs.param_groups[0]["lr"] = learning_rate
        theirs.step()
        own.step(vector, gradient, learning_rate)
        wrapped.step(other, torch.tensor(gradient), learning_rate)
        assert (gradient == kept).all()
    assert np.abs(vector - start).max() > 0.05
    np.testing.assert_allclose(vector, parameter.detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(other.numpy(), parameter.detach().numpy())


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_a_state_moves_between_numpy_and_torch(name: str, settings: dict[str, Any]) -> None:
    generator = np.random.default_rng(0)
    gradients = generator.normal(size=(6, 9)).astype(np.float32)
    vectors = []
    for first, second in (("numpy", "numpy"), ("numpy", "torch"), ("torch", "numpy"), ("torch", "torch")):
        vector = np.ones(9, np.float32)
        one, other = (backend(kind).optimizer(name, 9, **settings) for kind in (first, second))
        other.set_state(one.state())  # also before any step
        for gradient in gradients[:3]:
            one.step(vector, gradient, 0.1)
        other.set_state(one.state())
        for gradient in gradients[3:]:
            other.step(vector, gradient, 0.1)
        assert other.state()["steps"] == 6
        vectors.append(vector)
    for vector in vectors[1:]:
        np.testing.assert_allclose(vector, vectors[0], rtol=1e-5, atol=1e-6)


def test_optimizers_in_torch_refuse_what_does_not_fit() -> None:
    assert set(OPTIMIZERS) == set(CLASSES)
    one = TorchBackend()
    with pytest.raises(ConfigError, match="no optimizer 'lamb': take one of adam, adamw, rmsprop, sgd"):
        one.optimizer("lamb", 3)
    with pytest.raises(ConfigError, match=r"the optimizer 'adam' was given {'momentum': 0.9}"):
        one.optimizer("adam", 3, momentum=0.9)
    adam = one.optimizer("adam", 3)
    with pytest.raises(ModuleError, match=r"made for 3 parameters, and was given a vector of shape \(4,\)"):
        adam.step(torch.zeros(4), torch.zeros(4), 0.1)
    with pytest.raises(ModuleError, match=r"'adam' consists of .*'mean': \(3,\).*was given .*'mean': \(4,\)"):
        adam.set_state(one.optimizer("adam", 4).state())
