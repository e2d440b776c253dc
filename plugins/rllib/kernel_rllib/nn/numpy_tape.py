"""The operations on tensors of a tape: numpy with gradients, for learners without torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.nn import elementwise, softmaxes
from kernel_rllib.nn.branches import Branches
from kernel_rllib.nn.elementwise import Elementwise, activation_named
from kernel_rllib.nn.memory import LARGE
from kernel_rllib.nn.numpy_ops import parts, places, project, standardized, standardized_backward
from kernel_rllib.nn.ops import Axis, Network
from kernel_rllib.nn.products import ones, product
from kernel_rllib.nn.recurrent_tape import RecurrentTapeOps
from kernel_rllib.nn.reductions import kept, reduce
from kernel_rllib.nn.surrogates import clipped_surrogate
from kernel_rllib.nn.tensor import (
    Tape,
    Tensor,
    accumulate,
    accumulate_at,
    apply,
    constant_like,
    matmul,
    no_room,
    pass_through,
    pass_to,
    value_of,
)

Numbers = NDArray[Any]


def _elementwise(function: Elementwise) -> Callable[[TapeOps, Any], Any]:
    """Return the method that applies `function`."""
    return lambda self, x: apply(function, x) if isinstance(x, Tensor) else function.forward(x)


class TapeOps(RecurrentTapeOps):
    """Operations on tensors; `Ops` says what each does. What meets no tensor stays a plain numpy array."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape.dtype)
        self.tape = tape
        self.branches = Branches(self)

    def constant(self, array: Any) -> Any:
        return array.value if isinstance(array, Tensor) else super().constant(array)

    def stop_gradient(self, x: Any) -> Any:
        return value_of(x)

    def to_numpy(self, x: Any) -> Any:
        return np.asarray(value_of(x))

    # -- element by element --------------------------------------------------------------------------------------

    exp = _elementwise(elementwise.EXP)
    log = _elementwise(elementwise.LOG)
    log1p = _elementwise(elementwise.LOG1P)
    sqrt = _elementwise(elementwise.SQRT)
    square = _elementwise(elementwise.SQUARE)
    abs = _elementwise(elementwise.ABS)
    sin = _elementwise(elementwise.SIN)
    cos = _elementwise(elementwise.COS)
    tanh = _elementwise(elementwise.TANH)
    atanh = _elementwise(elementwise.ATANH)
    sigmoid = _elementwise(elementwise.SIGMOID)
    relu = _elementwise(elementwise.RELU)
    silu = _elementwise(elementwise.SILU)
    gelu = _elementwise(elementwise.GELU)
    softplus = _elementwise(elementwise.SOFTPLUS)
    erf = _elementwise(elementwise.ERF)
    lgamma = _elementwise(elementwise.LGAMMA)
    digamma = _elementwise(elementwise.DIGAMMA)

    def sign(self, x: Any) -> Any:
        return np.sign(value_of(x))

    def leaky_relu(self, x: Any, slope: float = 0.01) -> Any:
        return apply(elementwise.leaky_relu(slope), x) if isinstance(x, Tensor) else super().leaky_relu(x, slope)

    def elu(self, x: Any, alpha: float = 1.0) -> Any:
        return apply(elementwise.elu(alpha), x) if isinstance(x, Tensor) else super().elu(x, alpha)

    def huber(self, x: Any, delta: float = 1.0) -> Any:
        return apply(elementwise.huber(delta), x) if isinstance(x, Tensor) else super().huber(x, delta)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        if not isinstance(x, Tensor):
            return super().clip(x, value_of(low), value_of(high))
        value = x.value
        low, high = (None if bound is None else constant_like(value_of(bound), value.dtype) for bound in (low, high))
        out = Tensor(value.clip(low, high), x.tape)
        # Where clipping has not changed the value, it is in between, or at a bound.
        x.tape.append((out, lambda gradient: pass_to(x, gradient * (value == out.value))))
        return out

    def maximum(self, x: Any, y: Any) -> Any:
        return self._one_of_two(np.maximum, np.greater, x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return self._one_of_two(np.minimum, np.less, x, y)

    def _one_of_two(self, function: Any, comparison: Any, first: Any, second: Any) -> Any:
        """Return what `function` takes of x and y; it takes x where `comparison` of the two is true."""
        if not isinstance(first, Tensor) and not isinstance(second, Tensor):
            return function(first, second)
        x, y = constant_like(value_of(first), self.dtype), constant_like(value_of(second), self.dtype)
        out = Tensor(function(x, y), self.tape)
        nothing, half = self.dtype.type(0), self.dtype.type(0.5)

        def backward(gradient: Any) -> None:
            share = np.where(comparison(x, y), gradient, np.where(comparison(y, x), nothing, gradient * half))
            if isinstance(second, Tensor):
                pass_to(second, gradient - share)
            if isinstance(first, Tensor):
                pass_to(first, share)

        self.tape.append((out, backward))
        return out

    def where(self, mask: Any, x: Any, y: Any) -> Any:
        mask = value_of(mask)
        if not isinstance(x, Tensor) and not isinstance(y, Tensor):
            return np.where(mask, x, y)
        out = Tensor(
            np.where(mask, constant_like(value_of(x), self.dtype), constant_like(value_of(y), self.dtype)), self.tape
        )
        nothing = self.dtype.type(0)

        def backward(gradient: Any) -> None:  # no product with the mask, which would let NaN pass
            if isinstance(x, Tensor):
                pass_to(x, np.where(mask, gradient, nothing))
            if isinstance(y, Tensor):
                pass_to(y, np.where(mask, nothing, gradient))

        self.tape.append((out, backward))
        return out

    # -- along axes ----------------------------------------------------------------------------------------------

    def sum(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        value = super().sum(value_of(x), axis, keepdims)
        return self._made(x, value, lambda gradient: _spread(x, gradient, axis, keepdims))

    def mean(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        value = super().mean(value_of(x), axis, keepdims)
        share = value.size / max(value_of(x).size, 1)
        return self._made(x, value, lambda gradient: _spread(x, gradient * share, axis, keepdims))

    def max(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return self._extreme(np.maximum, x, axis, keepdims)

    def min(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return self._extreme(np.minimum, x, axis, keepdims)

    def _extreme(self, function: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
        value = value_of(x)
        extreme = reduce(function, value, axis, keepdims)

        def backward_of(gradient: Any) -> Any:
            shape = kept(value.shape, axis)
            among = (value == np.reshape(extreme, shape)).astype(value.dtype)
            among /= reduce(np.add, among, axis, keepdims=True)
            among *= np.reshape(gradient, shape)
            return among

        return self._made(x, extreme, backward_of)

    def logsumexp(self, x: Any, axis: int = -1, keepdims: bool = False) -> Any:
        return self._made(x, *softmaxes.logsumexp(np.asarray(value_of(x)), axis, keepdims))

    def softmax(self, x: Any, axis: int = -1) -> Any:
        return self._made(x, *softmaxes.softmax(np.asarray(value_of(x)), axis))

    def log_softmax(self, x: Any, axis: int = -1) -> Any:
        return self._made(x, *softmaxes.log_softmax(np.asarray(value_of(x)), axis))

    def log_softmax_at(self, x: Any, index: Any) -> Any:
        index = value_of(index)
        if not isinstance(x, Tensor) or x.value.ndim != 2:
            return super().log_softmax_at(x, index)
        return self._made(x, *softmaxes.log_softmax_at(x.value, index))

    def softmax_entropy(self, x: Any) -> Any:
        return self._made(x, *softmaxes.softmax_entropy(np.asarray(value_of(x))))

    def log_softmax_at_and_entropy(self, x: Any, index: Any) -> tuple[Any, Any]:
        if not isinstance(x, Tensor) or x.value.ndim != 2:
            return super().log_softmax_at_and_entropy(x, index)
        logs, entropies = softmaxes.log_softmax_at_and_entropy(x.value, value_of(index))
        return self._made(x, *logs), self._made(x, *entropies)

    def clipped_surrogate(self, log_probs: Any, before: Any, advantages: Any, low: float, high: float) -> Any:
        before, advantages = (constant_like(value_of(column), self.dtype) for column in (before, advantages))
        return self._made(log_probs, *clipped_surrogate(value_of(log_probs), before, advantages, low, high))

    def cumsum(self, x: Any, axis: int) -> Any:
        def backward_of(gradient: Numbers) -> Numbers:
            return np.flip(np.cumsum(np.flip(gradient, axis), axis), axis)

        return self._made(x, np.cumsum(value_of(x), axis), backward_of)

    def argmax(self, x: Any, axis: int = -1) -> Any:
        return np.argmax(value_of(x), axis)

    def _made(self, x: Any, value: Any, backward_of: Callable[[Any], Any]) -> Any:
        """Return `value`, made from `x`; `backward_of` makes the gradient of x from that of `value`."""
        if not isinstance(x, Tensor):
            return value
        out = Tensor(value, x.tape)
        x.tape.append((out, lambda gradient: accumulate(x, backward_of(gradient))))
        return out

    # -- shapes --------------------------------------------------------------------------------------------------

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return self._reshaped(x, value_of(x).reshape(shape))

    def squeeze(self, x: Any, axis: int) -> Any:
        return self._reshaped(x, value_of(x).squeeze(axis))

    def expand_dims(self, x: Any, axis: int) -> Any:
        return self._reshaped(x, np.expand_dims(value_of(x), axis))

    def _reshaped(self, x: Any, value: Any) -> Any:
        return self._made(x, value, lambda gradient: gradient.reshape(x.value.shape))

    def transpose(self, x: Any, axes: Sequence[int] | None = None) -> Any:
        back = None if axes is None else np.argsort([axis % x.ndim for axis in axes])
        return self._made(x, value_of(x).transpose(axes), lambda gradient: gradient.transpose(back))

    def flip(self, x: Any, axis: int) -> Any:
        return self._made(x, np.flip(value_of(x), axis), lambda gradient: np.flip(gradient, axis))

    def broadcast_to(self, x: Any, shape: Sequence[int]) -> Any:
        value = np.broadcast_to(value_of(x), shape)
        if not isinstance(x, Tensor):
            return value
        out = Tensor(value, x.tape)
        x.tape.append((out, lambda gradient: pass_to(x, gradient)))
        return out

    def concat(self, values: Sequence[Any], axis: int = -1) -> Any:
        value = np.concatenate([value_of(item) for item in values], axis)
        return self._joined(values, value, parts(value.shape, [item.shape[axis] for item in values], axis))

    def stack(self, values: Sequence[Any], axis: int = 0) -> Any:
        value = np.stack([value_of(item) for item in values], axis)
        before = (slice(None),) * (axis % value.ndim)
        return self._joined(values, value, [(*before, k) for k in range(len(values))])

    def _joined(self, values: Sequence[Any], value: Any, cuts: Sequence[tuple[Any, ...]]) -> Any:
        """Return `value`, in which each of `values` is at one of `cuts`."""
        if not any(isinstance(item, Tensor) for item in values):
            return value
        out = Tensor(constant_like(value, self.dtype), self.tape)

        def backward(gradient: Any) -> None:
            for item, cut in zip(values, cuts, strict=True):
                if isinstance(item, Tensor):
                    accumulate(item, gradient[cut])

        self.tape.append((out, backward))
        return out

    # -- by index ------------------------------------------------------------------------------------------------

    def take_along(self, x: Any, index: Any, axis: int = -1) -> Any:
        index = value_of(index)
        if not isinstance(x, Tensor):
            return super().take_along(x, index, axis)
        place = places(x.value.shape, index, axis)
        out = Tensor(x.value[place], x.tape)
        once = index.shape[axis] == 1  # then no place is taken twice: other axes have each index once
        x.tape.append((out, lambda gradient: accumulate_at(x, place, gradient, once)))
        return out

    def rows(self, x: Any, index: Any) -> Any:
        return x[value_of(index)]

    def one_hot(self, index: Any, depth: int) -> Any:
        return super().one_hot(value_of(index), depth)

    # -- layers --------------------------------------------------------------------------------------------------

    def matmul(self, x: Any, y: Any) -> Any:
        return matmul(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else super().matmul(x, y)

    def linear(self, x: Any, weight: Any, bias: Any | None = None, activation: str | None = None) -> Any:
        if not (isinstance(x, Tensor) or isinstance(weight, Tensor) or isinstance(bias, Tensor)):
            return super().linear(x, weight, bias, activation)
        inputs, matrix, tape = constant_like(value_of(x), self.dtype), value_of(weight), self.tape
        if inputs.ndim != 2 and matrix.ndim == 2:
            rows = self.linear(self.reshape(x, (-1, inputs.shape[-1])), weight, bias, activation)
            return self.reshape(rows, (*inputs.shape[:-1], matrix.shape[1]))
        function, saved = activation_named(activation), None
        shape = (*matrix.shape[:-2], inputs.shape[-2], matrix.shape[-1])
        room = tape.memory.room if math.prod(shape) >= LARGE else no_room
        y = project(inputs, matrix, value_of(bias), out=room(shape))
        if function is not None and function.from_output:
            y = function.forward(y, y)
        elif function is not None:
            saved, y = y, function.forward(y, room(shape))
        out = Tensor(y, tape)
        del y  # so that its memory may be used again on the way back

        def backward(gradient: Any) -> None:
            if function is not None:
                gradient = pass_through(function, gradient, saved, out)
            _linear_backward(gradient, x, inputs, weight, matrix, bias)
            if function is not None:
                tape.memory.give_back(gradient)
            if saved is not None:
                tape.memory.keep(saved)

        tape.append((out, backward))
        return out

    def side_by_side(self, networks: Mapping[str, Network], params: Mapping[str, Any], *inputs: Any) -> list[Any]:
        return self.branches.next(networks, params)(networks, inputs)

    def layer_norm(self, x: Any, scale: Any | None = None, bias: Any | None = None, epsilon: float = 1e-5) -> Any:
        value, factor = standardized(value_of(x), epsilon)
        y = self._made(x, value, lambda gradient: standardized_backward(gradient, value, factor))
        if scale is not None:
            y = y * scale
        return y if bias is None else y + bias


def _linear_backward(gradient: Any, x: Any, inputs: Numbers, weight: Any, matrix: Numbers, bias: Any) -> None:
    """Pass the gradient of `inputs @ matrix + bias` on to those of x, weight and bias that are tensors."""
    if gradient.ndim != 2:
        if isinstance(weight, Tensor):
            pass_to(weight, product(inputs.swapaxes(-1, -2), gradient))
        if isinstance(bias, Tensor):
            accumulate(bias, np.add.reduce(gradient, axis=-2))
        if isinstance(x, Tensor):
            pass_to(x, product(gradient, matrix.swapaxes(-1, -2)))
        return
    if isinstance(weight, Tensor):
        _accumulate_product(weight, inputs.T, gradient)
    if isinstance(bias, Tensor):  # by a product it is quicker than by a sum along the first axis
        _accumulate_product(bias, ones(len(gradient), gradient.dtype), gradient)
    if isinstance(x, Tensor):
        room = x.tape.memory.room(inputs.shape) if inputs.size >= LARGE else None
        accumulate(x, gradient.dot(matrix.T, room))


def _accumulate_product(tensor: Tensor, left: Numbers, right: Numbers) -> None:
    """Add `left @ right` to the gradient of `tensor`; it is computed in its slot, where nothing is in that yet."""
    if tensor.gradient is None and tensor.slot is not None:
        tensor.gradient = left.dot(right, tensor.slot)
    else:
        accumulate(tensor, left.dot(right))


def _spread(x: Tensor, gradient: Any, axis: Axis, keepdims: bool) -> Any:
    """Return the gradient of a sum of x, repeated along the axes that were summed."""
    value = x.value
    spread = np.empty(value.shape, value.dtype) if value.size < LARGE else x.tape.memory.room(value.shape)
    if not keepdims and axis is not None:
        gradient = gradient[..., None] if axis == -1 else gradient.reshape(kept(value.shape, axis))
    spread[...] = gradient
    return spread
