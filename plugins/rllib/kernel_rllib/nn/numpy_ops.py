"""The operations on plain numpy arrays, without gradients: what samples actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.errors import ModuleError
from kernel_rllib.nn import elementwise
from kernel_rllib.nn.convolution import convolve
from kernel_rllib.nn.elementwise import activation_named
from kernel_rllib.nn.ops import Axis, Network
from kernel_rllib.nn.products import product
from kernel_rllib.nn.recurrent import gru_forward, lstm_forward
from kernel_rllib.nn.reductions import reduce
from kernel_rllib.nn.side_by_side import computed
from kernel_rllib.nn.softmaxes import log_softmax, logsumexp, softmax, softmax_entropy
from kernel_rllib.nn.surrogates import clipped_surrogate

Numbers = NDArray[Any]


def _plain(function: Any) -> Callable[[NumpyOps, Any], Any]:
    """Return `function` as a method that is called without the object."""
    return staticmethod(function)


class NumpyOps:
    """Operations on numpy arrays; `Ops` says what each does. Floats that `constant` takes in become of `dtype`.

    With a `row_block`, such as `ROW_BLOCK`, a row of a result doesn't depend on how many rows there are, to the last
    bit: what samples actions needs that. All operations keep to it but the operator `@`; `matmul` does.
    """

    def __init__(self, dtype: Any = np.float32, row_block: int | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self._row_block = row_block

    def constant(self, array: Any) -> Any:
        array = np.asarray(array)
        return array if array.dtype.kind in "biu" else array.astype(self.dtype, copy=False)

    def stop_gradient(self, x: Any) -> Any:
        return x

    def to_numpy(self, x: Any) -> Any:
        return np.asarray(x)

    # -- element by element --------------------------------------------------------------------------------------

    exp = _plain(np.exp)
    log = _plain(np.log)
    log1p = _plain(np.log1p)
    sqrt = _plain(np.sqrt)
    square = _plain(np.square)
    abs = _plain(np.abs)
    sign = _plain(np.sign)
    sin = _plain(np.sin)
    cos = _plain(np.cos)
    tanh = _plain(np.tanh)
    atanh = _plain(np.arctanh)
    sigmoid = _plain(elementwise.SIGMOID.forward)
    relu = _plain(elementwise.RELU.forward)
    silu = _plain(elementwise.SILU.forward)
    gelu = _plain(elementwise.GELU.forward)
    softplus = _plain(elementwise.SOFTPLUS.forward)
    erf = _plain(elementwise.ERF.forward)
    lgamma = _plain(elementwise.LGAMMA.forward)
    digamma = _plain(elementwise.DIGAMMA.forward)

    def maximum(self, x: Any, y: Any) -> Any:
        return np.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return np.minimum(x, y)

    def leaky_relu(self, x: Any, slope: float = 0.01) -> Any:
        return elementwise.leaky_relu(slope).forward(x)

    def elu(self, x: Any, alpha: float = 1.0) -> Any:
        return elementwise.elu(alpha).forward(x)

    def huber(self, x: Any, delta: float = 1.0) -> Any:
        return elementwise.huber(delta).forward(x)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        return x.clip(low, high)

    def where(self, mask: Any, x: Any, y: Any) -> Any:
        return np.where(mask, x, y)

    # -- along axes ----------------------------------------------------------------------------------------------

    def sum(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return reduce(np.add, x, axis, keepdims)

    def mean(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        if x.dtype.kind != "f":
            x = x.astype(self.dtype)
        total = reduce(np.add, x, axis, keepdims)
        return total * (total.size / x.size if x.size else math.nan)

    def max(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return reduce(np.maximum, x, axis, keepdims)

    def min(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return reduce(np.minimum, x, axis, keepdims)

    def logsumexp(self, x: Any, axis: int = -1, keepdims: bool = False) -> Any:
        return logsumexp(np.asarray(x), axis, keepdims)[0]

    def softmax(self, x: Any, axis: int = -1) -> Any:
        return softmax(np.asarray(x), axis)[0]

    def log_softmax(self, x: Any, axis: int = -1) -> Any:
        return log_softmax(np.asarray(x), axis)[0]

    def log_softmax_at(self, x: Any, index: Any) -> Any:
        return self.take_along(self.log_softmax(x), index[..., None])[..., 0]

    def softmax_entropy(self, x: Any) -> Any:
        return softmax_entropy(np.asarray(x))[0]

    def log_softmax_at_and_entropy(self, x: Any, index: Any) -> tuple[Any, Any]:
        return self.log_softmax_at(x, index), self.softmax_entropy(x)

    def clipped_surrogate(self, log_probs: Any, before: Any, advantages: Any, low: float, high: float) -> Any:
        return clipped_surrogate(log_probs, before, advantages, low, high)[0]

    def cumsum(self, x: Any, axis: int) -> Any:
        return np.cumsum(x, axis)

    def argmax(self, x: Any, axis: int = -1) -> Any:
        return np.argmax(x, axis)

    # -- shapes --------------------------------------------------------------------------------------------------

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return x.reshape(shape)

    def transpose(self, x: Any, axes: Sequence[int] | None = None) -> Any:
        return x.transpose(axes)

    def squeeze(self, x: Any, axis: int) -> Any:
        return x.squeeze(axis)

    def expand_dims(self, x: Any, axis: int) -> Any:
        return np.expand_dims(x, axis)

    def broadcast_to(self, x: Any, shape: Sequence[int]) -> Any:
        return np.broadcast_to(x, shape)

    def flip(self, x: Any, axis: int) -> Any:
        return np.flip(x, axis)

    def concat(self, values: Sequence[Any], axis: int = -1) -> Any:
        return np.concatenate(values, axis)

    def stack(self, values: Sequence[Any], axis: int = 0) -> Any:
        return np.stack(values, axis)

    def split(self, x: Any, sections: int | Sequence[int], axis: int = -1) -> list[Any]:
        return [x[part] for part in parts(x.shape, sections, axis)]

    # -- by index ------------------------------------------------------------------------------------------------

    def take_along(self, x: Any, index: Any, axis: int = -1) -> Any:
        return x[places(x.shape, index, axis)]

    def rows(self, x: Any, index: Any) -> Any:
        return x[index]

    def one_hot(self, index: Any, depth: int) -> Any:
        index = np.asarray(index)
        ones = np.zeros((index.size, depth), self.dtype)
        ones[np.arange(index.size), index.reshape(-1)] = 1
        return ones.reshape(*index.shape, depth)

    # -- layers --------------------------------------------------------------------------------------------------

    def matmul(self, x: Any, y: Any) -> Any:
        return np.matmul(x, y) if x.ndim < 2 or y.ndim < 2 else product(x, y, self._row_block)

    def linear(self, x: Any, weight: Any, bias: Any | None = None, activation: str | None = None) -> Any:
        function = activation_named(activation)
        y = project(x, weight, bias, self._row_block)
        return y if function is None else function.forward(y, y)

    def side_by_side(self, networks: Mapping[str, Network], params: Mapping[str, Any], *inputs: Any) -> list[Any]:
        return computed(self, networks, params, inputs)

    def layer_norm(self, x: Any, scale: Any | None = None, bias: Any | None = None, epsilon: float = 1e-5) -> Any:
        y, _ = standardized(x, epsilon)
        if scale is not None:
            y *= scale
        if bias is not None:
            y += bias
        return y

    def lstm(
        self, projected: Any, hidden: Any, cell: Any, weight: Any, starts: Any | None = None
    ) -> tuple[Any, Any, Any]:
        trace = lstm_forward(projected, hidden, cell, weight, starts, row_block=self._row_block)
        return trace.hiddens, trace.hiddens[-1], trace.cells[-1]

    def lstm_cell(self, projected: Any, hidden: Any, cell: Any, weight: Any) -> tuple[Any, Any]:
        trace = lstm_forward(projected[None], hidden, cell, weight, row_block=self._row_block)
        return trace.hiddens[0], trace.cells[0]

    def gru(self, projected: Any, hidden: Any, weight: Any, bias: Any, starts: Any | None = None) -> tuple[Any, Any]:
        trace = gru_forward(projected, hidden, weight, bias, starts, row_block=self._row_block)
        return trace.hiddens, trace.hiddens[-1]

    def gru_cell(self, projected: Any, hidden: Any, weight: Any, bias: Any) -> Any:
        return gru_forward(projected[None], hidden, weight, bias, row_block=self._row_block).hiddens[0]

    def conv2d(
        self,
        x: Any,
        weight: Any,
        bias: Any | None = None,
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = "valid",
        activation: str | None = None,
    ) -> Any:
        if not isinstance(x, np.ndarray) or not isinstance(weight, np.ndarray):  # but tensors of the tape
            raise _only_in_torch("the gradient of conv2d")
        function = activation_named(activation)
        y = convolve(x, weight, stride, padding, self._row_block)
        if bias is not None:
            y += bias
        return y if function is None else function.forward(y, y)

    def attention(self, *arguments: Any, **named: Any) -> NoReturn:
        raise _only_in_torch("attention")


def _only_in_torch(operation: str) -> ModuleError:
    return ModuleError(
        f"{operation} is not among the operations in numpy: take framework='torch', "
        "which needs: pip install 'kernel-rllib[torch]'"
    )


# -- what the tape uses as well ------------------------------------------------------------------------------------


def project(x: Any, weight: Any, bias: Any | None, row_block: int | None = None, out: Numbers | None = None) -> Numbers:
    """Return `x @ weight + bias` (see `Ops.linear`), in a new array or in `out`. The weight decides about the type."""
    try:
        if x.dtype != weight.dtype:
            x = x.astype(weight.dtype)
        if x.ndim == 2 or weight.ndim > 2:
            y: Numbers = product(x, weight, row_block, out)
        else:  # one product of all rows, not one for each matrix of rows
            y = product(x.reshape(-1, x.shape[-1]), weight, row_block).reshape(*x.shape[:-1], weight.shape[1])
        if bias is not None:
            y += bias if bias.ndim == 1 else bias[:, None]
    except (ValueError, IndexError):
        raise _unfit(x, weight, bias) from None
    return y


def _unfit(x: Any, weight: Any, bias: Any | None) -> ModuleError:
    also = "" if bias is None else f" and a bias of shape {bias.shape}"
    return ModuleError(
        f"linear got an input of shape {x.shape}, a weight of shape {weight.shape}{also}: the input's last axis must "
        "be as long as the weight's one before the last, and the bias as the weight's last"
    )


def standardized(x: Numbers, epsilon: float) -> tuple[Numbers, Numbers]:
    """Return `x` with mean 0 and variance 1 along its last axis, and what it was multiplied by [..., 1]."""
    share = 1 / x.shape[-1]
    y = x - reduce(np.add, x, -1, keepdims=True) * share
    factor = reduce(np.add, y * y, -1, keepdims=True)
    factor *= share
    factor += epsilon
    np.sqrt(factor, out=factor)
    np.divide(1, factor, out=factor)
    y *= factor
    return y, factor


def standardized_backward(gradient: Numbers, value: Numbers, factor: Numbers) -> Numbers:
    """Return the gradient of x from that of `value`, where `value, factor = standardized(x, ...)`."""
    share = 1 / value.shape[-1]
    slope: Numbers = gradient - reduce(np.add, gradient, -1, keepdims=True) * share
    slope -= value * (reduce(np.add, gradient * value, -1, keepdims=True) * share)
    slope *= factor
    return slope


def parts(shape: tuple[int, ...], sections: int | Sequence[int], axis: int) -> list[tuple[slice, ...]]:
    """Return the index of each part that `split` cuts; raise ModuleError where they don't make up the axis."""
    length = shape[axis]
    sizes = [length // sections] * sections if isinstance(sections, int) else list(sections)
    if sum(sizes) != length:
        raise ModuleError(
            f"split was asked for {sections if isinstance(sections, int) else sizes} of axis {axis}, which is {length} "
            "long: give a number of equal parts, or sizes that add up to it"
        )
    before = (slice(None),) * (axis % len(shape))
    ends = np.cumsum(sizes).tolist()
    return [(*before, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def places(shape: tuple[int, ...], index: Any, axis: int) -> tuple[Any, ...]:
    """Return the index that takes from an array of `shape` what `take_along` does."""
    if index.ndim != len(shape):
        raise ModuleError(
            f"take_along got an index of shape {index.shape} for values of shape {shape}: it needs as many axes, "
            "such as index[:, None]"
        )
    if len(shape) == 2 and axis in (-1, 1):
        return np.arange(shape[0])[:, None], index
    axis %= len(shape)
    return tuple(
        index if k == axis else np.arange(n).reshape([n if j == k else 1 for j in range(len(shape))])
        for k, n in enumerate(shape)
    )
