"""Functions of one array, element by element, each with its derivative."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.errors import ModuleError
from kernel_rllib.nn.ops import ACTIVATIONS

Numbers = NDArray[Any]


class Elementwise(NamedTuple):
    """A function y = f(x), and how a gradient passes through it.

    `forward(x, out)` returns y; `out` may be x itself. `backward(gradient, x, y, out)` returns gradient * f'(x). Both
    write to `out` where one is given. With `from_output`, x is not needed to go backward, and may be None; with
    `in_place`, `out` may then be y itself.
    """

    forward: Callable[..., Any]
    backward: Callable[[Any, Any, Any, Numbers | None], Any]
    from_output: bool = False
    in_place: bool = False


def _log1p_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.add(x, 1, out)
    return np.divide(gradient, slope, _array(slope))


def _sqrt_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.divide(gradient, y, out)
    slope *= 0.5
    return slope


def _square_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.multiply(gradient, x, out)
    slope *= 2
    return slope


def _abs_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.sign(x, out)
    slope *= gradient
    return slope


def _sin_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.cos(x, out)
    slope *= gradient
    return slope


def _cos_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.sin(x, out)
    slope *= gradient
    return np.negative(slope, _array(slope))


def _tanh_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.multiply(y, y, out)
    slope = np.subtract(1, slope, _array(slope))
    slope *= gradient
    return slope


def _atanh_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.multiply(x, x, out)
    slope = np.subtract(1, slope, _array(slope))
    return np.divide(gradient, slope, _array(slope))


def sigmoid(x: Any, out: Numbers | None = None) -> Any:
    """Return 1 / (1 + exp(-x)), exact to the last digits also where it is small."""
    y = np.negative(x, out)
    with np.errstate(over="ignore"):  # an infinite exp(-x) gives the right answer, 0
        y = np.exp(y, _array(y))
    y += 1
    return np.divide(1, y, _array(y))


def _sigmoid_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.subtract(1, y, out)
    slope *= y
    slope *= gradient
    return slope


_ZEROS: dict[Any, Numbers] = {}
_MOST_ZEROS = 1 << 18


def _zeros_like(x: Any) -> Any:
    """Return zeros in the shape of `x`, one array for all: numpy takes the greater of two arrays thrice as fast as it
    compares an array with a number."""
    if x.size > _MOST_ZEROS or not isinstance(x, np.ndarray):
        return x.dtype.type(0)
    zeros = _ZEROS.get(x.dtype)
    if zeros is None or zeros.size < x.size:
        zeros = np.zeros(x.size, x.dtype)
        zeros.flags.writeable = False
        _ZEROS[x.dtype] = zeros
    return zeros[: x.size].reshape(x.shape)


def _relu(x: Any, out: Numbers | None = None) -> Any:
    return np.maximum(x, _zeros_like(x), out=out)


_SIGN_BITS = {np.dtype(np.float32): (np.int32, 31), np.dtype(np.float64): (np.int64, 63)}


def _relu_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    if y.dtype not in _SIGN_BITS or gradient.dtype != y.dtype:
        return np.multiply(gradient, y > 0, out)
    # 0 - y is negative where y is positive. Its sign bit, spread over a whole number, keeps a gradient or wipes it out:
    # quicker than multiplying by a mask.
    integer, width = _SIGN_BITS[y.dtype]
    slope = np.subtract(0, y, out)
    bits = slope.view(integer)
    bits >>= width
    bits &= gradient.view(integer)
    return bits.view(y.dtype)


def _silu(x: Any, out: Numbers | None = None) -> Any:
    return np.multiply(sigmoid(x, None if out is x else out), x, out)


def _silu_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = sigmoid(x, out)
    rest = y * slope
    slope += np.subtract(y, rest, _array(rest))
    slope *= gradient
    return slope


def erf(x: Any, out: Numbers | None = None) -> Any:
    """Return the error function."""
    from scipy import special  # takes a quarter of a second to import, and few networks need it

    return special.erf(x, out)


def _erf_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = np.multiply(x, x, out)
    slope = np.exp(np.negative(slope, _array(slope)), _array(slope))
    slope *= gradient
    slope *= 2 / math.sqrt(math.pi)
    return slope


def _gelu(x: Any, out: Numbers | None = None) -> Any:
    return np.multiply(_normal_cdf(x), x, out)


def _gelu_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    density = np.exp(x * x * -0.5)
    density *= 1 / math.sqrt(2 * math.pi)
    density *= x
    density += _normal_cdf(x)
    return np.multiply(density, gradient, out)


def _normal_cdf(x: Any) -> Any:
    share = erf(x * math.sqrt(0.5))
    share += 1
    share *= 0.5
    return share


def _softplus(x: Any, out: Numbers | None = None) -> Any:
    y = np.abs(x)
    y = np.exp(np.negative(y, _array(y)), _array(y))
    y = np.log1p(y, _array(y))
    return np.add(y, _relu(x), out)


def _softplus_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = sigmoid(x, out)
    slope *= gradient
    return slope


def _lgamma(x: Any, out: Numbers | None = None) -> Any:
    from scipy import special

    return special.gammaln(x, out)


def _digamma(x: Any, out: Numbers | None = None) -> Any:
    from scipy import special

    return special.psi(x, out)


def _lgamma_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    slope = _digamma(x, out)
    slope *= gradient
    return slope


def _digamma_backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
    from scipy import special

    slope = special.zeta(np.asarray(2, x.dtype), x, out)  # the trigamma function
    slope *= gradient
    return slope


@functools.cache
def elu(alpha: float) -> Elementwise:
    """Return the function that is x where x is positive, `alpha * (exp(x) - 1)` elsewhere."""

    def forward(x: Any, out: Numbers | None = None) -> Any:
        negative = np.expm1(np.minimum(x, _zeros_like(x)))
        negative *= alpha
        return np.add(negative, _relu(x), out)

    def backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
        return np.multiply(gradient, np.where(y > 0, y.dtype.type(1), y + alpha), out)

    return Elementwise(forward, backward, from_output=True, in_place=True)


@functools.cache
def leaky_relu(slope: float) -> Elementwise:
    """Return the function that is x where x is positive, `slope * x` elsewhere."""

    def forward(x: Any, out: Numbers | None = None) -> Any:
        return np.maximum(x, x * slope, out=out)

    def backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
        return np.multiply(gradient, np.where(y > 0, y.dtype.type(1), y.dtype.type(slope)), out)

    return Elementwise(forward, backward, from_output=True, in_place=True)


@functools.cache
def huber(delta: float) -> Elementwise:
    """Return the function that is x * x / 2 up to |x| = delta, and goes on as a line (Huber 1964)."""

    def forward(x: Any, out: Numbers | None = None) -> Any:
        size = np.abs(x)
        near = np.minimum(size, delta)
        size -= near * 0.5
        return np.multiply(size, near, out)

    def backward(gradient: Any, x: Any, y: Any, out: Numbers | None) -> Any:
        return np.multiply(x.clip(-delta, delta), gradient, out)

    return Elementwise(forward, backward)


def _negative(x: Any, out: Numbers | None = None) -> Any:
    return -x if out is None else np.negative(x, out)


def _array(value: Any) -> Numbers | None:
    """Return `value` where it can be written to: numpy makes a number of what has no axes."""
    return value if isinstance(value, np.ndarray) else None


EXP = Elementwise(np.exp, lambda gradient, x, y, out: np.multiply(y, gradient, out), from_output=True, in_place=True)
LOG = Elementwise(np.log, lambda gradient, x, y, out: np.divide(gradient, x, out))
LOG1P = Elementwise(np.log1p, _log1p_backward)
SQRT = Elementwise(np.sqrt, _sqrt_backward, from_output=True, in_place=True)
SQUARE = Elementwise(np.square, _square_backward)
ABS = Elementwise(np.abs, _abs_backward)
SIN = Elementwise(np.sin, _sin_backward)
COS = Elementwise(np.cos, _cos_backward)
TANH = Elementwise(np.tanh, _tanh_backward, from_output=True, in_place=True)
ATANH = Elementwise(np.arctanh, _atanh_backward)
SIGMOID = Elementwise(sigmoid, _sigmoid_backward, from_output=True)
RELU = Elementwise(_relu, _relu_backward, from_output=True, in_place=True)
SILU = Elementwise(_silu, _silu_backward)
GELU = Elementwise(_gelu, _gelu_backward)
SOFTPLUS = Elementwise(_softplus, _softplus_backward)
ERF = Elementwise(erf, _erf_backward)
LGAMMA = Elementwise(_lgamma, _lgamma_backward)
DIGAMMA = Elementwise(_digamma, _digamma_backward)
NEGATIVE = Elementwise(_negative, lambda gradient, x, y, out: _negative(gradient, out), from_output=True)

_BY_NAME: dict[str | None, Elementwise | None] = {
    None: None, "linear": None, "tanh": TANH, "relu": RELU, "sigmoid": SIGMOID, "silu": SILU, "swish": SILU,
    "elu": elu(1.0), "gelu": GELU, "leaky_relu": leaky_relu(0.01), "softplus": SOFTPLUS,
}  # fmt: skip


def activation_named(name: str | None) -> Elementwise | None:
    """Return the activation of that name, None for "linear"; raise ModuleError where there is none."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise unknown_activation(name) from None


def unknown_activation(name: str | None) -> ModuleError:
    """Return the error that says which activations there are."""
    return ModuleError(f"there is no activation {name!r}: take one of {', '.join(ACTIVATIONS)}")
