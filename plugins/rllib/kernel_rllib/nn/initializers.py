"""First values of parameters. Each is a function of (shape, generator) that returns float32 numbers.

A weight is [in, out], an ensemble's [E, in, out], a convolution's [rows, columns, in, out].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.errors import ConfigError

Shape = Sequence[int]
Initializer = Callable[[Shape, np.random.Generator], NDArray[np.float32]]


def chrono(horizon: int) -> Initializer:
    """Return one for the biases of an LSTM's gates [4 * cells] that is to remember for up to `horizon` steps.

    Those of the forget gates are log(u) with u uniform from 1 to `horizon` - 1, and those of the input gates minus
    that; the others are 0 (Tallec and Ollivier, 2018, arXiv 1804.11188, equation 16).
    """

    def initialize(shape: Shape, stream: np.random.Generator) -> NDArray[np.float32]:
        cells = shape[0] // 4
        forget = np.log(stream.uniform(1, max(horizon - 1, 1), cells))
        return np.concatenate([-forget, forget, np.zeros(2 * cells)]).astype(np.float32)

    return initialize


def zeros() -> Initializer:
    """Return the initializer of zeros."""
    return constant(0.0)


def constant(value: float) -> Initializer:
    """Return the initializer of one number for all."""
    return lambda shape, generator: np.full(tuple(shape), value, np.float32)


def normal(deviation: float = 1.0, mean: float = 0.0) -> Initializer:
    """Return the initializer of normal numbers."""
    return lambda shape, generator: _as_float32(generator.standard_normal(tuple(shape)) * deviation + mean)


def truncated_normal(deviation: float = 1.0, mean: float = 0.0, limit: float = 2.0) -> Initializer:
    """Return the initializer of normal numbers, drawn again where they are more than `limit` deviations off."""

    def initialize(shape: Shape, generator: np.random.Generator) -> NDArray[np.float32]:
        numbers = generator.standard_normal(tuple(shape))
        outside = np.abs(numbers) > limit
        while outside.any():
            numbers[outside] = generator.standard_normal(int(outside.sum()))
            outside = np.abs(numbers) > limit
        return _as_float32(numbers * deviation + mean)

    return initialize


def uniform(low: float, high: float) -> Initializer:
    """Return the initializer of numbers between `low` and `high`."""
    return lambda shape, generator: _as_float32(generator.uniform(low, high, tuple(shape)))


def glorot_uniform(gain: float = 1.0) -> Initializer:
    """Return the initializer within +-gain * sqrt(6 / (in + out)) (Glorot and Bengio 2010, equation 16)."""

    def initialize(shape: Shape, generator: np.random.Generator) -> NDArray[np.float32]:
        inputs, outputs = fans(shape)
        limit = gain * math.sqrt(6 / (inputs + outputs))
        return _as_float32(generator.uniform(-limit, limit, tuple(shape)))

    return initialize


def he_uniform(gain: float = math.sqrt(2)) -> Initializer:
    """Return the initializer within +-gain * sqrt(3 / in) (He et al. 2015, equation 10)."""

    def initialize(shape: Shape, generator: np.random.Generator) -> NDArray[np.float32]:
        limit = gain * math.sqrt(3 / fans(shape)[0])
        return _as_float32(generator.uniform(-limit, limit, tuple(shape)))

    return initialize


def torch_linear(inputs: int | None = None) -> Initializer:
    """Return the initializer within +-1 / sqrt(in), torch's default for linear layers, weights and biases.

    `inputs` is "in" where the shape doesn't tell: for a bias.
    """

    def initialize(shape: Shape, generator: np.random.Generator) -> NDArray[np.float32]:
        limit = 1 / math.sqrt(inputs or fans(shape)[0])
        return _as_float32(generator.uniform(-limit, limit, tuple(shape)))

    return initialize


_TALL = 16384
"""From how many rows on a basis is made by products of matrices: a QR decomposition takes minutes for 200,000 rows."""


def orthogonal(gain: float = 1.0) -> Initializer:
    """Return the initializer of orthogonal rows or columns, whichever are fewer, of length `gain` (Saxe et al. 2014).

    The axes before the last count as one; of an ensemble's weight [E, in, out] each matrix by itself is orthogonal.
    """

    def initialize(shape: Shape, generator: np.random.Generator) -> NDArray[np.float32]:
        if len(shape) == 3:
            return np.stack([initialize(shape[1:], generator) for _ in range(shape[0])])
        rows, columns = math.prod(shape[:-1]), shape[-1]
        numbers = generator.standard_normal((max(rows, columns), min(rows, columns)))
        basis = _orthonormal(numbers)
        return _as_float32(gain * (basis if rows >= columns else basis.T).reshape(tuple(shape)))

    return initialize


def _orthonormal(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an orthonormal basis of the columns of a tall matrix, all directions equally likely if its numbers are."""
    # The columns of a tall matrix of normal numbers are nearly orthogonal, so Cholesky's way is as exact.
    basis: NDArray[np.float64]
    if len(numbers) > max(_TALL, 8 * numbers.shape[1]):
        basis = numbers @ np.linalg.inv(np.linalg.cholesky(numbers.T @ numbers)).T
        return basis
    basis, triangle = np.linalg.qr(numbers)
    basis *= np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return basis


def normc(deviation: float = 1.0) -> Initializer:
    """Return the initializer of normal numbers, scaled so that each column has the length `deviation`, as in RLlib."""

    def initialize(shape: Shape, generator: np.random.Generator) -> NDArray[np.float32]:
        numbers = generator.standard_normal(tuple(shape))
        axes = tuple(range(len(shape) - 1)) or (0,)
        return _as_float32(numbers * (deviation / np.sqrt(np.square(numbers).sum(axis=axes, keepdims=True))))

    return initialize


_BY_NAME: dict[str, Callable[..., Initializer]] = {
    "zeros": zeros, "constant": constant, "normal": normal, "truncated_normal": truncated_normal, "uniform": uniform,
    "glorot_uniform": glorot_uniform, "xavier_uniform": glorot_uniform, "he_uniform": he_uniform,
    "kaiming_uniform": he_uniform, "torch_linear": torch_linear, "orthogonal": orthogonal, "normc": normc,
}  # fmt: skip


def initializer(name: str, **arguments: Any) -> Initializer:
    """Return the initializer of that name; raise ConfigError where there is none, or it doesn't take the arguments."""
    if name not in _BY_NAME:
        raise ConfigError(f"there is no initializer {name!r}: take one of {', '.join(_BY_NAME)}")
    try:
        return _BY_NAME[name](**arguments)
    except TypeError as error:
        raise ConfigError(f"the initializer {name!r} was given {arguments}: {error}") from None


def fans(shape: Shape) -> tuple[int, int]:
    """Return how many inputs and outputs one number of a parameter's result, and of its input, have."""
    if len(shape) < 2:
        length = shape[0] if shape else 1
        return length, length
    area = math.prod(shape[:-2]) if len(shape) > 3 else 1  # three axes are an ensemble, four a convolution
    return area * shape[-2], area * shape[-1]


def _as_float32(numbers: Any) -> NDArray[np.float32]:
    return np.asarray(numbers).astype(np.float32)
