"""Every operation of the numpy backends: values, gradients against finite differences, kinks, types, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kernel_rllib.nn as nn_package
import numpy as np
import pytest
from kernel_rllib.errors import ModuleError
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.numpy_tape import TapeOps
from kernel_rllib.nn.ops import ACTIVATIONS, OPERATIONS, Ops
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.nn.products import ROW_BLOCK
from kernel_rllib.nn.tensor import ParameterTensor, Tape, Tensor, accumulate_at
from kernel_rllib.testing.gradients import check_gradient
from kernel_rllib.testing.operations import EXAMPLES, Example, loss_of, results_of

IN_NUMPY = [example for example in EXAMPLES if not example.only_torch]


def drawn(example: Example) -> list[np.ndarray]:
    return [np.asarray(value, np.float64) for value in example.inputs(np.random.default_rng(11))]


def weights_for(example: Example, inputs: list[np.ndarray]) -> list[np.ndarray]:
    generator = np.random.default_rng(5)
    results = results_of(example, NumpyOps(np.float64), inputs)
    return [generator.uniform(0.5, 1.5, np.shape(result)) for result in results]


def test_the_tape_stays_small_enough_to_be_read() -> None:
    folder = Path(nn_package.__file__).parent
    files = ("memory.py", "numpy_tape.py", "tensor.py")
    assert sum(len((folder / file).read_text().splitlines()) for file in files) < 900


def test_every_operation_has_an_example_whose_gradient_is_checked() -> None:
    assert {example.operation for example in EXAMPLES if example.differentiable} >= set(OPERATIONS) - {"argmax"}
    assert {example.operation for example in IN_NUMPY} >= set(OPERATIONS) - {"conv2d", "attention"}
    assert len(OPERATIONS) >= 55


@pytest.mark.parametrize("example", [example for example in IN_NUMPY if example.differentiable], ids=repr)
def test_gradient_is_that_of_finite_differences(example: Example) -> None:
    inputs = drawn(example)
    loss = loss_of(example, weights_for(example, inputs))
    check_gradient(loss, {f"input_{k}": value for k, value in enumerate(inputs)}, tolerance=1e-6)


@pytest.mark.parametrize("example", IN_NUMPY, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tape_and_plain_numpy_give_the_same_bits_and_keep_the_type(example: Example, dtype: type) -> None:
    inputs = [value.astype(dtype) for value in drawn(example)]
    plain = results_of(example, NumpyOps(dtype), inputs)
    tape = Tape(dtype)
    on_tape = results_of(example, TapeOps(tape), [Tensor(value, tape) for value in inputs])
    for one, other in zip(plain, on_tape, strict=True):
        other = other.value if isinstance(other, Tensor) else other
        assert np.array_equal(one, other)
        if np.ndim(one) or np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # before, a number and 2.5 made a double
            assert np.asarray(one).dtype == np.asarray(other).dtype == (dtype if example.differentiable else np.int64)


@pytest.mark.parametrize("example", [example for example in IN_NUMPY if example.differentiable], ids=repr)
def test_gradients_keep_float32(example: Example) -> None:
    inputs = drawn(example)
    weights = weights_for(example, inputs)
    table = ParameterTable({f"input_{k}": value.shape for k, value in enumerate(inputs)})
    exact = table.vector({f"input_{k}": value for k, value in enumerate(inputs)}, np.float64)
    _, expected = NumpyBackend().gradient(loss_of(example, weights), exact, table)
    metrics, found = NumpyBackend().gradient(loss_of(example, weights), exact.astype(np.float32), table)
    assert found.dtype == np.float32
    assert all(getattr(value, "dtype", np.float32) == np.float32 for value in metrics.values())
    np.testing.assert_allclose(found, expected, rtol=3e-4, atol=3e-5 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example.only_torch], ids=repr)
def test_what_only_torch_can_do_says_so(example: Example) -> None:
    tape = Tape(np.float32)
    inputs: list[Any] = [value.astype(np.float32) for value in drawn(example)]
    inputs[1] = ParameterTensor(inputs[1], tape, np.zeros_like(inputs[1]))
    with pytest.raises(ModuleError, match=r"framework='torch'.*pip install 'kernel-rllib\[torch\]'"):
        example.function(TapeOps(tape), *inputs)


@pytest.mark.parametrize("padding", ["valid", "same", 1, (2, 0)])
@pytest.mark.parametrize("stride", [1, 2, (1, 3)])
def test_a_convolution_is_a_sum_over_patches(stride: Any, padding: Any) -> None:
    generator = np.random.default_rng(0)
    x, weight = generator.normal(size=(2, 6, 7, 3)), generator.normal(size=(3, 2, 3, 4))
    found = NumpyOps(np.float64).conv2d(x, weight, np.ones(4), stride, padding, "relu")
    down, right = (stride, stride) if isinstance(stride, int) else stride
    if padding == "same":
        lengths = zip((6, 7), (3, 2), (down, right), strict=True)
        sides = [max((-(-length // step) - 1) * step + kernel - length, 0) for length, kernel, step in lengths]
        zeros = [(side // 2, side - side // 2) for side in sides]
    else:
        zeros = [(side, side) for side in {"valid": (0, 0), 1: (1, 1)}.get(padding, padding)]
    padded = np.pad(x, ((0, 0), *zeros, (0, 0)))
    for i in range(found.shape[1]):
        for j in range(found.shape[2]):
            patch = padded[:, i * down : i * down + 3, j * right : j * right + 2]
            expected = np.einsum("nrci,rcio->no", patch, weight) + 1
            np.testing.assert_allclose(found[:, i, j], np.maximum(expected, 0), rtol=1e-10, atol=1e-12)
    if padding == "same":
        assert found.shape == (2, -(-6 // down), -(-7 // right), 4)


def test_a_row_of_a_convolution_is_the_same_in_any_company() -> None:
    generator = np.random.default_rng(1)
    weight = generator.normal(size=(8, 8, 4, 16)).astype(np.float32)
    for size in (8, 20, 36):  # one place, few, many
        x = generator.normal(size=(24, size, size, 4)).astype(np.float32)
        nn = NumpyOps(row_block=ROW_BLOCK)
        together = nn.conv2d(x, weight, None, 4)
        for few in (1, 8):
            assert nn.conv2d(x[:few], weight, None, 4).tobytes() == together[:few].tobytes()


# -- values, against formulas --------------------------------------------------------------------------------------

X = np.array([[-3.0, -0.5, 0.0, 0.7], [2.0, 30.0, -30.0, 0.1]])


def test_values_of_functions_of_one_array() -> None:
    from scipy import special

    nn = NumpyOps(np.float64)
    positive = np.abs(X) + 0.1
    for found, expected in [
        (nn.exp(X), np.exp(X)), (nn.log(positive), np.log(positive)), (nn.log1p(positive), np.log1p(positive)),
        (nn.sqrt(positive), np.sqrt(positive)), (nn.square(X), X * X), (nn.abs(X), np.abs(X)), (nn.sign(X), np.sign(X)),
        (nn.sin(X), np.sin(X)), (nn.cos(X), np.cos(X)), (nn.tanh(X), np.tanh(X)),
        (nn.atanh(X / 40), np.arctanh(X / 40)), (nn.sigmoid(X), special.expit(X)), (nn.relu(X), np.where(X > 0, X, 0)),
        (nn.leaky_relu(X), np.where(X > 0, X, 0.01 * X)), (nn.leaky_relu(X, 0.5), np.where(X > 0, X, 0.5 * X)),
        (nn.elu(X), np.where(X > 0, X, np.expm1(X))), (nn.elu(X, 2.0), np.where(X > 0, X, 2 * np.expm1(X))),
        (nn.silu(X), X * special.expit(X)), (nn.gelu(X), X * special.ndtr(X)), (nn.softplus(X), np.logaddexp(X, 0)),
        (nn.erf(X), special.erf(X)), (nn.lgamma(positive), special.gammaln(positive)),
        (nn.digamma(positive), special.psi(positive)),
        (nn.huber(X), np.where(np.abs(X) <= 1, X * X / 2, np.abs(X) - 0.5)),
        (nn.huber(X, 2.0), np.where(np.abs(X) <= 2, X * X / 2, 2 * (np.abs(X) - 1))),
        (nn.clip(X, -1, 1), np.clip(X, -1, 1)), (nn.cumsum(X, 0), np.cumsum(X, 0)), (nn.argmax(X), [3, 1]),
        (nn.flip(X, 1), X[:, ::-1]), (nn.one_hot(np.array([1, 0]), 3), [[0, 1, 0], [1, 0, 0]]),
    ]:  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_small_values_of_sigmoid_and_softplus_are_exact() -> None:
    x = np.array([-80.0, -20.0, -100.0, 100.0], np.float32)
    nn = NumpyOps()
    np.testing.assert_allclose(nn.sigmoid(x)[:2], np.exp(x[:2].astype(float)), rtol=1e-6)
    np.testing.assert_allclose(nn.softplus(x)[:2], np.exp(x[:2].astype(float)), rtol=1e-6)
    assert nn.sigmoid(x)[2:].tolist() == [pytest.approx(0, abs=1e-38), 1.0]
    assert nn.softplus(x)[3] == 100


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (3, 60), (5,)])
def test_values_along_axes(shape: tuple[int, ...]) -> None:
    from scipy import special

    x = np.random.default_rng(0).normal(size=shape) * 30
    nn = NumpyOps(np.float64)
    for axis in range(-1, len(shape)):
        np.testing.assert_allclose(nn.logsumexp(x, axis), special.logsumexp(x, axis), rtol=1e-12)
        np.testing.assert_allclose(nn.logsumexp(x, axis, True), special.logsumexp(x, axis, keepdims=True), rtol=1e-12)
        np.testing.assert_allclose(nn.softmax(x, axis), special.softmax(x, axis), rtol=1e-12)
        np.testing.assert_allclose(nn.log_softmax(x, axis), special.log_softmax(x, axis), rtol=1e-12, atol=1e-14)
        for keepdims in (False, True):
            np.testing.assert_allclose(nn.sum(x, axis, keepdims), x.sum(axis, keepdims=keepdims), rtol=1e-12)
            np.testing.assert_allclose(nn.mean(x, axis, keepdims), x.mean(axis, keepdims=keepdims), rtol=1e-12)
            assert np.array_equal(nn.max(x, axis, keepdims), x.max(axis, keepdims=keepdims))
            assert np.array_equal(nn.min(x, axis, keepdims), x.min(axis, keepdims=keepdims))


def test_infinite_values_along_axes() -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 2.0]])
    nn = NumpyOps(np.float64)
    assert nn.logsumexp(x).tolist() == [-np.inf, 2.0]
    assert nn.log_softmax(x[1:]).tolist() == [[-np.inf, 0.0]]
    assert nn.softmax(x[1:]).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_layer_is_a_product_a_sum_and_a_function(activation: str) -> None:
    generator = np.random.default_rng(3)
    x, weight, bias = generator.normal(size=(6, 3)), generator.normal(size=(3, 4)), generator.normal(size=4)
    nn = NumpyOps(np.float64)
    z = x @ weight + bias
    name = {"swish": "silu"}.get(activation, activation)
    expected = z if activation == "linear" else getattr(nn, name)(z)
    np.testing.assert_allclose(nn.linear(x, weight, bias, activation), expected, rtol=1e-12)


def test_an_ensemble_is_one_layer_for_each() -> None:
    generator = np.random.default_rng(3)
    x, weight, bias = generator.normal(size=(6, 3)), generator.normal(size=(2, 3, 4)), generator.normal(size=(2, 4))
    nn = NumpyOps(np.float64)
    found = nn.linear(x, weight, bias, "tanh")
    for k in range(2):
        np.testing.assert_allclose(found[k], nn.linear(x, weight[k], bias[k], "tanh"), rtol=1e-12)


def test_the_entropy_of_a_softmax_is_that_of_its_parts() -> None:
    nn = NumpyOps(np.float64)
    x = np.random.default_rng(3).normal(size=(5, 4))
    np.testing.assert_allclose(nn.softmax_entropy(x), -(nn.softmax(x) * nn.log_softmax(x)).sum(1), rtol=1e-12)
    assert slopes(lambda nn, x: nn.softmax_entropy(x), np.zeros((2, 4))) == [[[0] * 4] * 2]


@pytest.mark.parametrize("never", [-np.inf, np.finfo(np.float64).min])
def test_what_is_never_taken_adds_nothing_to_an_entropy_and_gets_no_gradient(never: float) -> None:
    for rows in (1, 3):
        x = np.tile([0.5, never, -0.25], (rows, 1))
        nn = NumpyOps(np.float64)
        np.testing.assert_allclose(nn.softmax_entropy(x), nn.softmax_entropy(x[:, [0, 2]]), rtol=1e-12)
        (found,) = slopes(lambda nn, x: nn.softmax_entropy(x), x)
        (without,) = slopes(lambda nn, x: nn.softmax_entropy(x), x[:, [0, 2]])
        assert found == [[first, 0, last] for first, last in without]


@pytest.mark.parametrize("shape", [(7, 3), (1, 3), (4, 60)])
def test_log_probabilities_and_entropies_are_the_same_together(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(3)
    x, index = generator.normal(size=shape).astype(np.float32), generator.integers(0, shape[1], shape[0])
    x[0, 1 - min(1, index[0])] = -np.inf
    table = ParameterTable({"x": shape})

    def apart(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        return sum_of(nn, nn.log_softmax_at(params["x"], index), nn.softmax_entropy(params["x"]))

    def together(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        return sum_of(nn, *nn.log_softmax_at_and_entropy(params["x"], index))

    def sum_of(nn: Ops, logs: Any, entropies: Any) -> tuple[Any, dict[str, Any]]:
        return nn.mean(logs) + 0.5 * nn.mean(entropies), {"logs": logs, "entropies": entropies}

    vector = x.reshape(-1)
    (expected, slope), (found, own) = (NumpyBackend().gradient(loss, vector, table) for loss in (apart, together))
    assert np.isfinite(own).all() and own.tobytes() == slope.tobytes()
    assert all(found[name].tobytes() == expected[name].tobytes() for name in ("logs", "entropies"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_clipped_surrogate_has_the_bits_of_its_parts(dtype: type) -> None:
    generator = np.random.default_rng(3)
    before, advantages = generator.normal(size=(2, 500)).astype(dtype)
    log_probs = before + generator.normal(size=500).astype(dtype) * dtype(0.3)
    table = ParameterTable({"x": (500,)})

    def of_parts(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        ratio = nn.exp(params["x"] - before)
        rows = nn.minimum(ratio * advantages, nn.clip(ratio, 0.8, 1.2) * advantages)
        return nn.mean(rows), {"rows": rows}

    def in_one(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        rows = nn.clipped_surrogate(params["x"], before, advantages, 0.8, 1.2)
        return nn.mean(rows), {"rows": rows}

    (expected, slope), (found, own) = (NumpyBackend().gradient(loss, log_probs, table) for loss in (of_parts, in_one))
    assert found["rows"].tobytes() == expected["rows"].tobytes()
    assert np.array_equal(own, slope)
    assert 100 < np.count_nonzero(own) < 400


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_lstm_follows_its_equations() -> None:
    generator = np.random.default_rng(3)
    projected, weight = generator.normal(size=(4, 3, 8)), generator.normal(size=(2, 8))
    hidden, cell = generator.normal(size=(3, 2)), generator.normal(size=(3, 2))
    starts = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], bool)
    nn = NumpyOps(np.float64)
    hiddens, last_hidden, last_cell = nn.lstm(projected, hidden, cell, weight, starts)
    for t in range(4):
        hidden, cell = np.where(starts[t][:, None], 0, hidden), np.where(starts[t][:, None], 0, cell)
        i, f, g, o = np.split(projected[t] + hidden @ weight, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        np.testing.assert_allclose(hiddens[t], hidden, rtol=1e-12)
    np.testing.assert_allclose(last_hidden, hidden, rtol=1e-12)
    np.testing.assert_allclose(last_cell, cell, rtol=1e-12)


def test_gru_follows_its_equations() -> None:
    generator = np.random.default_rng(3)
    projected, weight, bias = (generator.normal(size=shape) for shape in ((4, 3, 6), (2, 6), (6,)))
    hidden = generator.normal(size=(3, 2))
    starts = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], bool)
    hiddens, last = NumpyOps(np.float64).gru(projected, hidden, weight, bias, starts)
    for t in range(4):
        hidden = np.where(starts[t][:, None], 0, hidden)
        (xr, xz, xn), (hr, hz, hn) = np.split(projected[t], 3, axis=1), np.split(hidden @ weight + bias, 3, axis=1)
        update = sigmoid(xz + hz)
        hidden = (1 - update) * np.tanh(xn + sigmoid(xr + hr) * hn) + update * hidden
        np.testing.assert_allclose(hiddens[t], hidden, rtol=1e-12)
    np.testing.assert_allclose(last, hidden, rtol=1e-12)


# -- kinks and ties ------------------------------------------------------------------------------------------------


def slopes(function: object, *inputs: object) -> list[list[float]]:
    """Return the gradient of the sum of `function(nn, *inputs)` by each of the inputs."""
    arrays = {f"x{k}": np.array(value, np.float64) for k, value in enumerate(inputs)}
    table = ParameterTable({name: value.shape for name, value in arrays.items()})

    def loss(nn: Ops, params: object) -> tuple[object, dict[str, object]]:
        return nn.sum(function(nn, *params.values())), {}  # type: ignore[operator,attr-defined]

    _, gradient = NumpyBackend().gradient(loss, table.vector(arrays, np.float64), table)
    return [view.tolist() for view in table.views(gradient).values()]


def test_of_equal_values_each_gets_half() -> None:
    for operation in ("maximum", "minimum"):
        found = slopes(lambda nn, x, y: getattr(nn, operation)(x, y), [1.0, 2.0, 3.0], [1.0, 1.0, 4.0])  # noqa: B023
        taken = 1.0 if operation == "maximum" else 0.0
        assert found == [[0.5, taken, 1 - taken], [0.5, 1 - taken, taken]]


def test_equal_greatest_values_share() -> None:
    assert slopes(lambda nn, x: nn.max(x), [3.0, 1.0, 3.0, 3.0, 2.0]) == [[1 / 3, 0, 1 / 3, 1 / 3, 0]]
    assert slopes(lambda nn, x: nn.min(x, 1), [[1.0, 1.0], [1.0, 2.0]]) == [[[0.5, 0.5], [1, 0]]]
    assert slopes(lambda nn, x: nn.max(x, (0, 1), True), [[1.0, 1.0], [1.0, 1.0]]) == [[[0.25] * 2] * 2]


def test_at_its_bounds_clip_lets_pass() -> None:
    assert slopes(lambda nn, x: nn.clip(x, -1, 1), [-2.0, -1.0, 0.0, 1.0, 2.0]) == [[0, 1, 1, 1, 0]]


def test_at_zero() -> None:
    zeros = [0.0, -0.0]
    for operation, slope in (
        ("abs", 0),
        ("relu", 0),
        ("leaky_relu", 0.01),
        ("elu", 1),
        ("softplus", 0.5),
        ("huber", 0),
    ):
        assert slopes(lambda nn, x: getattr(nn, operation)(x), zeros) == [[slope, slope]]  # noqa: B023
    assert slopes(lambda nn, x, w: nn.linear(x, w, None, "relu"), [[0.0]], [[5.0]]) == [[[0.0]], [[0.0]]]


def test_what_a_mask_hides_passes_nothing_on() -> None:
    x = [0.0, 4.0]
    assert slopes(lambda nn, x: nn.where(x > 1, nn.log(x), x * 0), x)[0][1] == 0.25
    found = slopes(lambda nn, x: nn.where(x > 1, x, 1.0) / nn.where(x > 1, 1.0, 0.0), x)
    assert found[0][1] == 1
    # The gradient that comes back is infinite where the mask is false, and a product with it would be undefined.
    assert slopes(lambda nn, x: nn.sqrt(nn.where(x > 1, x, 0.0)), x) == [[0.0, 0.25]]


def test_gradients_of_repeated_rows_add_up() -> None:
    assert slopes(lambda nn, x: nn.rows(x, nn.constant([0, 0, 2, 0])), [[1.0], [2.0], [3.0]]) == [[[3], [0], [1]]]
    assert slopes(lambda nn, x: x[nn.constant([-1, -1])], [[1.0], [2.0], [3.0]]) == [[[0], [0], [2]]]


def test_gradients_of_slices_backwards_are_turned_round() -> None:
    assert slopes(lambda nn, x: x[::-1] * nn.constant([1, 2, 3]), [5.0, 6.0, 7.0]) == [[3, 2, 1]]


def test_gradients_of_rows_add_to_those_that_lie_in_memory_column_by_column() -> None:
    def function(nn: Ops, w: Any) -> Any:
        x = nn.exp(nn.transpose(w))
        y = nn.rows(x, nn.constant([0, 1, 0]))
        return nn.concat([y, x, nn.square(x)], 0)

    check_gradient(lambda nn, p: (nn.sum(function(nn, p["w"]) * nn.constant(np.arange(36.0).reshape(9, 4))), {}),
                   {"w": np.random.default_rng(0).normal(size=(4, 3))})  # fmt: skip
    tape = Tape(np.float64)
    x = Tensor(np.ones((3, 2)), tape)
    x.gradient = np.ones((2, 3)).T.copy(order="F")
    accumulate_at(x, np.array([0, 2, 0]), np.ones((3, 2)))
    assert x.gradient.tolist() == [[3, 3], [1, 1], [2, 2]]


def test_without_gradient() -> None:
    assert slopes(lambda nn, x: nn.stop_gradient(x) * x, [2.0, 3.0]) == [[2, 3]]
    assert slopes(lambda nn, x: nn.sign(x) + x, [2.0, -3.0]) == [[1, 1]]
    assert slopes(lambda nn, x: nn.one_hot(nn.argmax(x, 0), 2) * x, [2.0, -3.0]) == [[1, 0]]


# -- what meets a tensor -------------------------------------------------------------------------------------------


def test_a_constant_takes_the_type_of_what_it_meets() -> None:
    tape = Tape(np.float32)
    nn = TapeOps(tape)
    x = Tensor(np.ones((2, 3), np.float32), tape)
    doubles, integers = np.ones((2, 3)), np.ones((2, 3), np.int64)
    for other in (doubles, integers, np.float64(2), np.int64(2), 2, 2.5, True, doubles > 0):
        for result in (x + other, other + x, x * other, other * x, x - other, other - x, x / other, other / x,
                       x**other, nn.maximum(x, other), nn.minimum(other, x), nn.where(x > 0, other, x),
                       nn.clip(x, 0, other)):  # fmt: skip
            assert isinstance(result, Tensor)
            assert result.dtype == np.float32
    weight = Tensor(np.ones((3, 3), np.float32), tape)
    for given in (doubles, integers):
        assert nn.linear(given, weight, None, "tanh").dtype == nn.matmul(given, weight).dtype == np.float32
        assert (given @ weight).dtype == (weight @ given.T).dtype == np.float32
        assert NumpyOps().linear(given, weight.value).dtype == np.float32
    assert (nn.concat([x, doubles]).dtype, nn.stack([doubles, x]).dtype) == (np.float32, np.float32)
    assert (nn.constant(doubles).dtype, nn.constant(integers).dtype, nn.constant(x).dtype) == (
        np.float32, np.int64, np.float32)  # fmt: skip


def test_comparisons_are_plain_arrays() -> None:
    tape = Tape(np.float32)
    x, y = Tensor(np.array([1, 2, 3], np.float32), tape), np.array([2, 2, 2], np.float32)
    for found, expected in [(x < y, [1, 0, 0]), (x <= y, [1, 1, 0]), (x > y, [0, 0, 1]), (x >= y, [0, 1, 1]),
                            (x == y, [0, 1, 0]), (x != y, [1, 0, 1]), (y < x, [0, 0, 1]), (x > 2, [0, 0, 1]),
                            (x == Tensor(y, tape), [0, 1, 0])]:  # fmt: skip
        assert type(found) is np.ndarray
        assert found.tolist() == list(map(bool, expected))


def test_a_tensor_looks_like_an_array_but_numpy_does_not_take_it() -> None:
    tape = Tape(np.float32)
    x = Tensor(np.ones((2, 3), np.float32), tape)
    assert (x.shape, x.ndim, x.dtype, len(x)) == ((2, 3), 2, np.float32, 2)
    assert [row.shape for row in x] == [(3,), (3,)]
    assert "Tensor(array" in repr(x)
    assert float(TapeOps(tape).sum(x)) == 6 and bool(TapeOps(tape).sum(x))
    assert len({x, x}) == 1
    with pytest.raises(TypeError, match="nn.to_numpy"):
        np.asarray(x)
    with pytest.raises(TypeError):
        np.exp(x)


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nn", [NumpyOps(), TapeOps(Tape(np.float32))], ids=["numpy", "tape"])
def test_errors_name_shapes_and_choices(nn: Ops) -> None:
    x, weight, bias = np.ones((2, 3), np.float32), np.ones((4, 5), np.float32), np.ones(6, np.float32)
    with pytest.raises(
        ModuleError, match=r"input of shape \(2, 3\), a weight of shape \(4, 5\): the input's last axis"
    ):
        nn.linear(x, weight)
    with pytest.raises(ModuleError, match=r"weight of shape \(3, 4\) and a bias of shape \(6,\)"):
        nn.linear(x, weight[:3, :4], bias)
    with pytest.raises(ModuleError, match="no activation 'thanh': take one of linear, tanh, relu"):
        nn.linear(x, weight[:3], None, "thanh")
    with pytest.raises(ModuleError, match=r"split was asked for 2 of axis -1, which is 3 long"):
        nn.split(x, 2)
    with pytest.raises(ModuleError, match=r"split was asked for \[1, 1\] of axis 1, which is 3 long"):
        nn.split(x, [1, 1], 1)
    with pytest.raises(ModuleError, match=r"index of shape \(2,\) for values of shape \(2, 3\).*index\[:, None\]"):
        nn.take_along(x, np.array([0, 1]))
