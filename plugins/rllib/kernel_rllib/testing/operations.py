"""Examples of every operation: a conformance kit for backends.

Each is checked against finite differences where it has a gradient, and between backends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.nn.ops import ACTIVATIONS, Ops

Numbers = NDArray[Any]


class Example(NamedTuple):
    """An operation on inputs that are drawn, away from kinks and ties."""

    operation: str
    name: str
    function: Callable[..., Any]
    """Takes `nn` and the inputs; returns a value, or a tuple of them."""
    inputs: Callable[[np.random.Generator], list[Numbers]]
    differentiable: bool = True
    only_torch: bool = False

    def __repr__(self) -> str:
        return f"{self.operation}-{self.name}"


EXAMPLES: list[Example] = []


def loss_of(example: Example, weights: list[Numbers]) -> Callable[[Ops, Any], tuple[Any, dict[str, Any]]]:
    """Return a loss: the results of an example, each times fixed `weights`, summed."""

    def loss(nn: Ops, params: Any) -> tuple[Any, dict[str, Any]]:
        results = results_of(example, nn, list(params.values()))
        total = 0.0
        for result, weight in zip(results, weights, strict=True):
            total = total + nn.sum(result * nn.constant(weight))
        return total, {f"result_{k}": result for k, result in enumerate(results)}

    return loss


def results_of(example: Example, nn: Ops, inputs: list[Any]) -> tuple[Any, ...]:
    """Return what an example makes of its inputs, as a tuple."""
    results = example.function(nn, *inputs)
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


# -- how inputs are drawn ------------------------------------------------------------------------------------------


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Numbers]]:
    """Return normal numbers, none nearer to zero than 0.05."""

    def draw(generator: np.random.Generator) -> list[Numbers]:
        numbers = [generator.standard_normal(shape) for shape in shapes]
        return [number + np.where(number < 0, -0.05, 0.05) for number in numbers]

    return draw


def between(low: float, high: float, *shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Numbers]]:
    """Return numbers between two bounds."""
    return lambda generator: [generator.uniform(low, high, shape) for shape in shapes]


def distinct(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Numbers]]:
    """Return numbers that differ from each other by 0.1 at least, over all shapes."""

    def draw(generator: np.random.Generator) -> list[Numbers]:
        sizes = [int(np.prod(shape)) for shape in shapes]
        numbers = generator.permutation(sum(sizes)) * 0.1 - sum(sizes) * 0.05 + 0.033
        return [
            part.reshape(shape) for part, shape in zip(np.split(numbers, np.cumsum(sizes)[:-1]), shapes, strict=True)
        ]

    return draw


def _add(operation: str, name: str, function: Callable[..., Any], inputs: Any, **more: Any) -> None:
    EXAMPLES.append(Example(operation, name, function, inputs, **more))


# -- into the backend, and out of it -------------------------------------------------------------------------------

_INDEX = np.array([2, 0, 2, 1, 2])
_MASK = np.array([[True, False, True, True], [False, False, True, False], [True, True, True, False]])

_add("constant", "meets", lambda nn, x: x * nn.constant(np.arange(4.0)), normal((3, 4)))
_add("constant", "of-a-number", lambda nn, x: x * nn.constant(2.5), normal((3, 4)))
_add("stop_gradient", "detaches", lambda nn, x: nn.square(x) * 2, normal((3, 4)))
_add("to_numpy", "copies", lambda nn, x: x * nn.constant(np.ones_like(nn.to_numpy(x))), normal((3, 4)))

# -- operators -----------------------------------------------------------------------------------------------------

for _name, _operator in {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: abs_of(x) ** y,
}.items():
    _add("+ - * / **", _name, lambda nn, x, y, f=_operator: f(x, y), normal((3, 4), (3, 4)))
    _add("+ - * / **", f"{_name}-by-row", lambda nn, x, y, f=_operator: f(x, y), normal((3, 4), (4,)))
    _add("+ - * / **", f"{_name}-of-row", lambda nn, x, y, f=_operator: f(x, y), normal((4,), (2, 3, 4)))
    _add("+ - * / **", f"{_name}-both-ways", lambda nn, x, y, f=_operator: f(x, y), normal((3, 1), (1, 4)))
    _add("+ - * / **", f"{_name}-number-left", lambda nn, x, f=_operator: f(2.5, x), normal((3, 4)))
    _add("+ - * / **", f"{_name}-number-right", lambda nn, x, f=_operator: f(x, 1.5), normal((3, 4)))
    _add("+ - * / **", f"{_name}-single-numbers", lambda nn, x, y, f=_operator: f(x, y), normal((), ()))
_add("+ - * / **", "itself", lambda nn, x: x * x + x - x / (x * x), normal((3, 4)))
_add("+ - * / **", "squared", lambda nn, x: x**2, normal((3, 4)))
_add("+ - * / **", "cubed", lambda nn, x: x**3, normal((3, 4)))
_add("+ - * / **", "negative", lambda nn, x: -x, normal((3, 4)))
_add("@", "matrices", lambda nn, x, y: x @ y, normal((3, 4), (4, 2)))
_add("@", "two-large", lambda nn, x, y: nn.mean(nn.tanh(x * y) * x, 0), normal((100, 3), (100, 3)))
_add("[]", "slice", lambda nn, x: x[1:, ::2], normal((3, 4)))
_add("[]", "whole", lambda nn, x: x[:, 0], normal((3, 1)))
_add("[]", "integer", lambda nn, x: x[-1], normal((3, 4)))
_add("[]", "new-axis", lambda nn, x: x[..., None] * x[:, None], normal((3, 4)))
_add("[]", "rows", lambda nn, x: x[nn.constant(_INDEX)], normal((3, 4)))
_add("[]", "negative-rows", lambda nn, x: x[nn.constant(np.array([-1, 0, -1]))], normal((3, 4)))
_add("[]", "mask", lambda nn, x: x[nn.constant(_MASK)], normal((3, 4)))
_add("[]", "pairs", lambda nn, x: x[nn.constant(_INDEX[:3]), nn.constant(_INDEX[1:4])], normal((3, 4)))
_add("[]", "overlapping", lambda nn, x: x[:2] * x[1:] + x[:2], normal((3, 4)))


def abs_of(x: Any) -> Any:
    """Return the absolute value by operators alone."""
    return (x * x) ** 0.5 if not isinstance(x, float) else abs(x)


# -- element by element --------------------------------------------------------------------------------------------

for _operation, _draw in {
    "exp": normal((3, 4)),
    "log": between(0.2, 3, (3, 4)),
    "log1p": between(-0.7, 3, (3, 4)),
    "sqrt": between(0.2, 3, (3, 4)),
    "square": normal((3, 4)),
    "abs": normal((3, 4)),
    "sin": normal((3, 4)),
    "cos": normal((3, 4)),
    "tanh": normal((3, 4)),
    "atanh": between(-0.8, 0.8, (3, 4)),
    "sigmoid": between(-8, 8, (3, 4)),
    "relu": normal((3, 4)),
    "leaky_relu": normal((3, 4)),
    "elu": normal((3, 4)),
    "silu": normal((3, 4)),
    "gelu": normal((3, 4)),
    "softplus": between(-8, 8, (3, 4)),
    "erf": normal((3, 4)),
    "lgamma": between(0.2, 6, (3, 4)),
    "digamma": between(0.2, 6, (3, 4)),
    "huber": between(-0.9, 0.9, (3, 4)),
}.items():
    _add(_operation, "matrix", lambda nn, x, name=_operation: getattr(nn, name)(x), _draw)
    _add(
        _operation,
        "number-and-used-twice",
        lambda nn, x, name=_operation: getattr(nn, name)(nn.mean(x)) * nn.sum(getattr(nn, name)(x)),
        _draw,
    )
for _operation, _low, _high in (("exp", -1, 1), ("tanh", -2, 2), ("relu", 0.1, 2), ("softplus", -3, 3), ("sqrt", 1, 2)):
    _add(  # arrays so large that their memory is used again
        _operation,
        "large",
        lambda nn, x, name=_operation: nn.sum(getattr(nn, name)(nn.broadcast_to(x, (100, 90)) * 0.5), 0),
        between(_low, _high, (90,)),
    )
_add("sign", "constant", lambda nn, x: nn.sign(x) * x, normal((3, 4)))
_add("leaky_relu", "steep", lambda nn, x: nn.leaky_relu(x, 0.3), normal((3, 4)))
_add("elu", "alpha", lambda nn, x: nn.elu(x, 0.5), normal((3, 4)))
_add("huber", "far", lambda nn, x: nn.huber(x), between(1.1, 3, (3, 4)))
_add("huber", "delta", lambda nn, x: nn.huber(x, 0.4), distinct((3, 4)))
_add("clip", "both", lambda nn, x: nn.clip(x, -0.3, 0.4), distinct((3, 4)))
_add("clip", "below", lambda nn, x: nn.clip(x, -0.3, None), distinct((3, 4)))
_add("clip", "above", lambda nn, x: nn.clip(x, None, 0.4), distinct((3, 4)))
_add("clip", "by-arrays", lambda nn, x: nn.clip(x, nn.constant(np.full(4, -0.3)), 0.4), distinct((3, 4)))
for _operation in ("maximum", "minimum"):
    _add(_operation, "matrices", lambda nn, x, y, f=_operation: getattr(nn, f)(x, y), distinct((3, 4), (3, 4)))
    _add(_operation, "by-row", lambda nn, x, y, f=_operation: getattr(nn, f)(x, y), distinct((3, 4), (4,)))
    _add(_operation, "of-number", lambda nn, x, f=_operation: getattr(nn, f)(0.1, x), distinct((3, 4)))
    _add(_operation, "with-constant", lambda nn, x, f=_operation: getattr(nn, f)(x, nn.constant(np.zeros(4))),
         distinct((3, 4)))  # fmt: skip
_add("where", "matrices", lambda nn, x, y: nn.where(nn.constant(_MASK), x, y), normal((3, 4), (3, 4)))
_add("where", "by-row", lambda nn, x, y: nn.where(nn.constant(_MASK), x, y), normal((4,), (3, 1)))
_add("where", "number", lambda nn, x: nn.where(nn.constant(_MASK), x, 0.0), normal((3, 4)))
_add("where", "number-left", lambda nn, x: nn.where(nn.constant(_MASK), 1.0, x), normal((3, 4)))
_add("where", "compared", lambda nn, x, y: nn.where(x > y, x * 2, y * 3), distinct((3, 4), (3, 4)))

# -- along axes ----------------------------------------------------------------------------------------------------

for _operation in ("sum", "mean", "max", "min"):
    for _axis in (None, 0, 1, -1, (0, 1), (0, -1), (2, 0), [1]):
        for _keepdims in (False, True):
            _add(
                _operation,
                f"axis-{_axis}-keepdims-{_keepdims}",
                lambda nn, x, f=_operation, axis=_axis, keep=_keepdims: getattr(nn, f)(x, axis, keep) * 2,
                distinct((2, 3, 4)),
            )
    _add(_operation, "of-row", lambda nn, x, f=_operation: getattr(nn, f)(x, 0), distinct((5,)))
    _add(_operation, "of-number", lambda nn, x, f=_operation: getattr(nn, f)(x), distinct(()))
    _add(_operation, "wide", lambda nn, x, f=_operation: getattr(nn, f)(x, -1), distinct((2, 60)))
    _add(_operation, "one-wide", lambda nn, x, f=_operation: getattr(nn, f)(x, -1), distinct((3, 1)))
    _add(_operation, "of-constant", lambda nn, x, f=_operation: x * getattr(nn, f)(nn.constant(np.arange(6.0))),
         distinct((3,)))  # fmt: skip
_add("mean", "of-mask", lambda nn, x: nn.mean(x > 0) * x, distinct((3, 4)))
for _operation in ("softmax", "log_softmax", "logsumexp"):
    for _axis in (-1, 1, 0):
        _add(_operation, f"axis-{_axis}", lambda nn, x, f=_operation, axis=_axis: getattr(nn, f)(x, axis),
             normal((3, 4)))  # fmt: skip
    _add(_operation, "three-axes", lambda nn, x, f=_operation: getattr(nn, f)(x), normal((2, 3, 4)))
    _add(_operation, "middle-axis", lambda nn, x, f=_operation: getattr(nn, f)(x, 1), normal((2, 3, 4)))
    _add(_operation, "row", lambda nn, x, f=_operation: getattr(nn, f)(x), normal((4,)))
    _add(_operation, "wide", lambda nn, x, f=_operation: getattr(nn, f)(x * 20), normal((2, 60)))
_add("log_softmax_at", "rows", lambda nn, x: nn.log_softmax_at(x, nn.constant(np.array([3, 0, 2]))), normal((3, 4)))
_add("log_softmax_at", "row", lambda nn, x: nn.log_softmax_at(x, nn.constant(np.array([1]))), normal((1, 4)))
_add(
    "log_softmax_at",
    "three-axes",
    lambda nn, x: nn.log_softmax_at(x, nn.constant(np.array([[3, 0, 2], [1, 1, 0]]))),
    normal((2, 3, 4)),
)
_add("log_softmax_at", "wide", lambda nn, x: nn.log_softmax_at(x * 20, nn.constant(np.array([59, 7]))), normal((2, 60)))
_add("softmax_entropy", "rows", lambda nn, x: nn.softmax_entropy(x), normal((3, 4)))
_add("softmax_entropy", "row", lambda nn, x: nn.softmax_entropy(x), normal((1, 4)))
_add("softmax_entropy", "flat", lambda nn, x: nn.softmax_entropy(x), normal((4,)))
_add("softmax_entropy", "three-axes", lambda nn, x: nn.softmax_entropy(x), normal((2, 3, 4)))
_add("softmax_entropy", "wide", lambda nn, x: nn.softmax_entropy(x), normal((2, 60)))
for _name, _shape, _index in (
    ("rows", (3, 4), [3, 0, 2]),
    ("row", (1, 4), [1]),
    ("wide", (2, 60), [59, 7]),
    ("three-axes", (2, 3, 4), [[3, 0, 2], [1, 1, 0]]),
):
    _add(
        "log_softmax_at_and_entropy",
        _name,
        lambda nn, x, index=_index: nn.log_softmax_at_and_entropy(x, nn.constant(np.array(index))),
        normal(_shape),
    )
_SHIFTS, _ADVANTAGES = np.array([-0.6, -0.5, 0.05, -0.04, 0.5, 0.7]), np.array([1.5, -0.3, 0.8, -2.0, 0.6, -1.1])
_add(
    "clipped_surrogate",
    "all-cases",  # the ratio below, between and above the bounds, each with both signs of the advantage
    lambda nn, x: nn.clipped_surrogate(x * 0.01, nn.constant(-_SHIFTS), nn.constant(_ADVANTAGES), 0.8, 1.2),
    normal((6,)),
)
_add("logsumexp", "keepdims", lambda nn, x: nn.logsumexp(x, -1, keepdims=True), normal((3, 4)))
_add("cumsum", "columns", lambda nn, x: nn.cumsum(x, 0), normal((3, 4)))
_add("cumsum", "rows", lambda nn, x: nn.cumsum(x, -1), normal((3, 4)))
_add("argmax", "rows", lambda nn, x: nn.argmax(x), distinct((3, 4)), differentiable=False)
_add("argmax", "columns", lambda nn, x: nn.argmax(x, 0), distinct((3, 4)), differentiable=False)

# -- shapes --------------------------------------------------------------------------------------------------------

_add("reshape", "rows", lambda nn, x: nn.reshape(x, (-1, 2)), normal((3, 4)))
_add("reshape", "flat", lambda nn, x: nn.reshape(nn.transpose(x), [12]), normal((3, 4)))
_add("transpose", "reversed", lambda nn, x: nn.transpose(x), normal((2, 3, 4)))
_add("transpose", "order", lambda nn, x: nn.transpose(x, (1, 2, 0)), normal((2, 3, 4)))
_add("transpose", "negative", lambda nn, x: nn.transpose(x, (0, -1, 1)), normal((2, 3, 4)))
_add("squeeze", "middle", lambda nn, x: nn.squeeze(x, 1), normal((3, 1, 4)))
_add("squeeze", "last", lambda nn, x: nn.squeeze(x, -1), normal((3, 1)))
_add("expand_dims", "last", lambda nn, x: nn.expand_dims(x, -1) * x[0, 0], normal((3, 4)))
_add("expand_dims", "first", lambda nn, x: nn.expand_dims(x, 0), normal((3, 4)))
_add("broadcast_to", "more-axes", lambda nn, x: nn.broadcast_to(x, (2, 3, 4)), normal((3, 1)))
_add("flip", "columns", lambda nn, x: nn.flip(x, -1), normal((3, 4)))
_add("flip", "rows", lambda nn, x: nn.flip(x, 0), normal((3, 4)))
_add("concat", "columns", lambda nn, x, y: nn.concat([x, y, x]), normal((3, 4), (3, 2)))
_add("concat", "rows", lambda nn, x, y: nn.concat([x, y], 0), normal((3, 4), (1, 4)))
_add("concat", "with-constant", lambda nn, x: nn.concat([nn.constant(np.ones((3, 2))), x]), normal((3, 4)))
_add("stack", "first", lambda nn, x, y: nn.stack([x, y]), normal((3, 4), (3, 4)))
_add("stack", "last", lambda nn, x, y: nn.stack([x, y, x], -1), normal((3, 4), (3, 4)))
_add("split", "equal", lambda nn, x: nn.split(x, 2), normal((3, 4)))
_add("split", "sizes", lambda nn, x: nn.split(x, [1, 3]), normal((3, 4)))
_add("split", "rows", lambda nn, x: nn.split(x, (2, 1), 0), normal((3, 4)))

# -- by index ------------------------------------------------------------------------------------------------------

_add("take_along", "one-a-row", lambda nn, x: nn.take_along(x, nn.constant(np.array([[3], [0], [2]]))), normal((3, 4)))
_add("take_along", "repeated", lambda nn, x: nn.take_along(x, nn.constant(np.array([[3, 3], [0, 1], [2, 2]]))),
     normal((3, 4)))  # fmt: skip
_add("take_along", "columns", lambda nn, x: nn.take_along(x, nn.constant(np.array([[2, 0, 0, 1]])), 0), normal((3, 4)))
_add("take_along", "atoms", lambda nn, x: nn.take_along(x, nn.constant(np.array([[[1]], [[0]]])), 1),
     normal((2, 3, 4)))  # fmt: skip
_add("take_along", "axis-1-of-3", lambda nn, x: nn.take_along(x, nn.constant(np.ones((2, 2, 4), int)), 1) * 2,
     normal((2, 3, 4)))  # fmt: skip
_add("rows", "repeated", lambda nn, x: nn.rows(x, nn.constant(_INDEX)), normal((3, 4)))
_add("rows", "of-two-axes", lambda nn, x: nn.rows(x, nn.constant(_INDEX[:4].reshape(2, 2))), normal((3, 4)))
_add("rows", "matrices", lambda nn, x: nn.rows(x, nn.constant(_INDEX)), normal((3, 4, 2)))
_add("rows", "of-single-numbers", lambda nn, x: nn.rows(x, nn.constant(_INDEX)), normal((3,)))
_add("rows", "used-twice", lambda nn, x: nn.rows(x, nn.constant(_INDEX)) * nn.sum(x), normal((3, 4)))
_add("one_hot", "times", lambda nn, x: nn.one_hot(nn.constant(_INDEX), 3) @ x, normal((3, 4)))
_add("one_hot", "two-axes", lambda nn, x: nn.one_hot(nn.constant(_INDEX[:4].reshape(2, 2)), 4) * x, normal((4,)))

# -- layers --------------------------------------------------------------------------------------------------------

_add("matmul", "matrices", lambda nn, x, y: nn.matmul(x, y), normal((3, 4), (4, 2)))
_add("matmul", "batches", lambda nn, x, y: nn.matmul(x, y), normal((2, 3, 4), (2, 4, 5)))
_add("matmul", "batch-by-matrix", lambda nn, x, y: nn.matmul(x, y), normal((2, 3, 4), (4, 5)))
_add("matmul", "matrix-by-batch", lambda nn, x, y: nn.matmul(x, y), normal((3, 4), (2, 4, 5)))
_add("matmul", "by-row", lambda nn, x, y: nn.matmul(x, y), normal((3, 4), (4,)))
_add("matmul", "of-row", lambda nn, x, y: nn.matmul(x, y), normal((3,), (3, 4)))
_add("matmul", "of-constant", lambda nn, x: nn.matmul(nn.constant(np.arange(6.0).reshape(2, 3)), x), normal((3, 4)))
for _activation in (None, *ACTIVATIONS):
    _add("linear", f"{_activation}", lambda nn, x, w, b, a=_activation: nn.linear(x, w, b, a),
         normal((5, 3), (3, 4), (4,)))  # fmt: skip
    _add("linear", f"{_activation}-large",
         lambda nn, x, w, b, a=_activation: nn.mean(nn.linear(nn.broadcast_to(x, (100, 2)), w, b, a), 0),
         normal((1, 2), (2, 90), (90,)))  # fmt: skip
_add("linear", "no-bias", lambda nn, x, w: nn.linear(x, w, activation="tanh"), normal((5, 3), (3, 4)))
_add("linear", "one-row", lambda nn, x, w, b: nn.linear(x, w, b, "tanh"), normal((3,), (3, 4), (4,)))
_add("linear", "one-output", lambda nn, x, w, b: nn.linear(x, w, b), normal((5, 3), (3, 1), (1,)))
_add("linear", "sequences", lambda nn, x, w, b: nn.linear(x, w, b, "elu"), normal((2, 5, 3), (3, 4), (4,)))
_add("linear", "ensemble", lambda nn, x, w, b: nn.linear(x, w, b, "tanh"), normal((5, 3), (2, 3, 4), (2, 4)))
_add("linear", "ensemble-of-each", lambda nn, x, w, b: nn.linear(x, w, b, "relu"),
     normal((2, 5, 3), (2, 3, 4), (2, 4)))  # fmt: skip
_add("linear", "of-constant", lambda nn, w, b: nn.linear(nn.constant(np.arange(6.0).reshape(2, 3)), w, b, "tanh"),
     normal((3, 4), (4,)))  # fmt: skip
_add("linear", "twice-the-weight", lambda nn, x, w, b: nn.linear(nn.linear(x, w, b, "tanh"), w, b, "tanh"),
     normal((5, 3), (3, 3), (3,)))  # fmt: skip
_add("linear", "noisy", lambda nn, x, w, s, b: nn.linear(x, w + s * nn.constant(np.arange(12.0).reshape(3, 4)), b),
     normal((5, 3), (3, 4), (3, 4), (4,)))  # fmt: skip
_add("linear", "output-used-twice", lambda nn, x, w, b: _used_twice(nn, nn.linear(x, w, b, "tanh")),
     normal((5, 3), (3, 4), (4,)))  # fmt: skip
_add("side_by_side", "of-constant", lambda nn, v, w: nn.side_by_side({"a": _layer, "b": _layer}, {"a/0": v, "b/0": w},
     nn.constant(np.arange(6.0).reshape(2, 3))), normal((3, 4), (3, 2)))  # fmt: skip
_add("side_by_side", "of-the-same", lambda nn, x, v, w: nn.side_by_side(
     {"a": _layer, "b": _layer}, {"a/0": nn.exp(v), "b/0": w}, nn.square(x)),
     normal((2, 3), (3, 4), (3, 4)))  # fmt: skip
_add("side_by_side", "one-unused", lambda nn, x, v, w: nn.side_by_side(
     {"a": _layer, "b": _layer}, {"a/0": v, "b/0": w}, x, x)[1], normal((2, 3), (3, 4), (3, 4)))  # fmt: skip
_add("side_by_side", "twice", lambda nn, x, v, w: nn.concat(nn.side_by_side({"a": _layer, "b": _layer},
     {"a/0": v, "b/0": w}, *nn.side_by_side({"a": _layer, "b": _layer}, {"a/0": v, "b/0": w}, x)[:1])),
     normal((2, 3), (3, 3), (3, 3)))  # fmt: skip
_add("layer_norm", "plain", lambda nn, x: nn.layer_norm(x), normal((3, 5)))
_add("layer_norm", "scaled", lambda nn, x, s, b: nn.layer_norm(x, s, b), normal((2, 3, 5), (5,), (5,)))
_add("layer_norm", "wide", lambda nn, x, s, b: nn.layer_norm(x, s, b, 0.1), normal((2, 60), (60,), (60,)))

_STARTS = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], bool)
_add("lstm", "all-results", lambda nn, x, h, c, w: nn.lstm(x, h, c, w), normal((4, 3, 8), (3, 2), (3, 2), (2, 8)))
_add("lstm", "starts", lambda nn, x, h, c, w: nn.lstm(x, h, c, w, nn.constant(_STARTS)),
     normal((4, 3, 8), (3, 2), (3, 2), (2, 8)))  # fmt: skip
_add("lstm", "hiddens-only", lambda nn, x, h, c, w: nn.lstm(x, h, c, w)[0],
     normal((4, 3, 8), (3, 2), (3, 2), (2, 8)))  # fmt: skip
_add("lstm", "cell-only", lambda nn, x, h, c, w: nn.lstm(x, h, c, w)[2],
     normal((4, 3, 8), (3, 2), (3, 2), (2, 8)))  # fmt: skip
_add("lstm", "constant-state",
     lambda nn, x, w: nn.lstm(x, nn.constant(np.ones((3, 2))), nn.constant(np.zeros((3, 2))), w),
     normal((4, 3, 8), (2, 8)))  # fmt: skip
_add("lstm_cell", "both", lambda nn, x, h, c, w: nn.lstm_cell(x, h, c, w), normal((3, 8), (3, 2), (3, 2), (2, 8)))
_add("lstm_cell", "steps", lambda nn, x, h, c, w: nn.lstm_cell(x, *nn.lstm_cell(x, h, c, w), w),
     normal((3, 8), (3, 2), (3, 2), (2, 8)))  # fmt: skip
_add("gru", "all-results", lambda nn, x, h, w, b: nn.gru(x, h, w, b), normal((4, 3, 6), (3, 2), (2, 6), (6,)))
_add("gru", "starts", lambda nn, x, h, w, b: nn.gru(x, h, w, b, nn.constant(_STARTS)),
     normal((4, 3, 6), (3, 2), (2, 6), (6,)))  # fmt: skip
_add("gru_cell", "state", lambda nn, x, h, w, b: nn.gru_cell(x, h, w, b), normal((3, 6), (3, 2), (2, 6), (6,)))
_add("gru_cell", "steps", lambda nn, x, h, w, b: nn.gru_cell(x, nn.gru_cell(x, h, w, b), w, b),
     normal((3, 6), (3, 2), (2, 6), (6,)))  # fmt: skip
for _stride, _padding in ((1, "valid"), (2, "same"), ((1, 2), (1, 0)), (2, 1)):
    _add("conv2d", f"stride-{_stride}-{_padding}",
         lambda nn, x, w, b, s=_stride, p=_padding: nn.conv2d(x, w, b, s, p, "tanh"),
         normal((2, 5, 6, 3), (3, 2, 3, 4), (4,)), only_torch=True)  # fmt: skip
_add("attention", "plain", lambda nn, q, k, v: nn.attention(q, k, v), normal((2, 3, 4), (2, 5, 4), (2, 5, 4)),
     only_torch=True)  # fmt: skip
_add("attention", "masked", lambda nn, q, k, v: nn.attention(q, k, v, nn.constant(np.tri(3, 5, 2, dtype=bool))),
     normal((2, 3, 4), (2, 5, 4), (2, 5, 4)), only_torch=True)  # fmt: skip


def _layer(nn: Ops, params: Any, x: Any, y: Any = 1.0) -> Any:
    (weight,) = params.values()
    return nn.linear(x * y, weight, None, "tanh")


def _used_twice(nn: Ops, x: Any) -> tuple[Any, ...]:
    return x * x, nn.exp(x), x
