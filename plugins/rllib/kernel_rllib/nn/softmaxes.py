"""The softmax of rows and what is made of it: values, and functions that make the gradient of the input of theirs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.nn.products import ones
from kernel_rllib.nn.reductions import NARROW, columns_of, reduce

Numbers = NDArray[Any]
Backward = Callable[[Numbers], Numbers]
"""Returns the gradient of the input, of that of the value."""
SMALLEST_LOG_PROBABILITY = -1e30
"""Stands for minus infinity where it is weighed by a probability of 0: their product is then 0, and not NaN."""


def softmax(x: Numbers, axis: int) -> tuple[Numbers, Backward]:
    """Return exp(x) divided by its sum along an axis."""
    value = _along(_shares, x, axis)

    def backward_of(gradient: Numbers) -> Numbers:
        slope: Numbers = gradient * value
        slope -= value * reduce(np.add, slope, axis, keepdims=True)
        return slope

    return value, backward_of


def log_softmax(x: Numbers, axis: int) -> tuple[Numbers, Backward]:
    """Return the logarithm of `softmax`."""
    value = _along(_log_shares, x, axis)

    def backward_of(gradient: Numbers) -> Numbers:
        slope: Numbers = np.exp(value)
        if slope.ndim == 2 and axis == -1:
            slope *= np.dot(gradient, ones(slope.shape[1], slope.dtype))[:, None]
        else:
            slope *= reduce(np.add, gradient, axis, keepdims=True)
        return np.subtract(gradient, slope, out=slope)

    return value, backward_of


def log_softmax_at(x: Numbers, index: Numbers) -> tuple[Numbers, Backward]:
    """Return an entry of the logarithm of the softmax of each row of x [N, A].

    Rows are computed as columns, in which numpy finds the entries, and spreads gradients, in half the time.
    """
    if len(x) > 1 and x.shape[1] <= NARROW:
        return _entries(_log_shares(columns_of(x), 0), index)
    return _entries(_along(_log_shares, x, -1).T.copy(), index)


def softmax_entropy(x: Numbers) -> tuple[Numbers, Backward]:
    """Return the entropy of the softmax of each row of x [..., A]: H = -sum p log p.

    The bits are those of `softmax` and `log_softmax`, but the exponentials are computed once for both.
    """
    if x.ndim > 1 and x.shape[-1] <= NARROW:
        return _entropies(*_logs_and_shares(columns_of(x), 0), 0, x.shape)
    return _entropies(*_logs_and_shares(x.copy(), -1), -1, x.shape)


def log_softmax_at_and_entropy(x: Numbers, index: Numbers) -> tuple[tuple[Numbers, Backward], tuple[Numbers, Backward]]:
    """Return what `log_softmax_at` and `softmax_entropy` do, of x [N, A], with the same bits."""
    if len(x) < 2 or x.shape[1] > NARROW:
        return log_softmax_at(x, index), softmax_entropy(x)
    logs, shares = _logs_and_shares(columns_of(x), 0)
    return _entries(logs, index), _entropies(logs, shares, 0, x.shape)


def logsumexp(x: Numbers, axis: int, keepdims: bool) -> tuple[Numbers, Backward]:
    """Return the logarithm of the sum of exp(x) along an axis."""
    value = _along(_log_of_sum, x, axis)

    def backward_of(gradient: Numbers) -> Numbers:
        shares: Numbers = np.exp(x - value)
        shares *= gradient if keepdims else np.expand_dims(gradient, axis)
        return shares

    return value if keepdims else np.squeeze(value, axis), backward_of


def _along(function: Callable[[Numbers, int], Numbers], x: Numbers, axis: int) -> Numbers:
    """Return what `function` makes of a copy of `x`, which it may overwrite, along `axis`, which it keeps."""
    last = x.ndim - 1
    if x.ndim < 2 or axis not in (-1, last) or x.shape[-1] > NARROW:
        return function(x.copy(), axis)
    columns = function(columns_of(x), 0)
    rows: Numbers = columns.T[: x.size // x.shape[-1]].copy()
    return rows.reshape(*x.shape[:-1], len(columns))


def _shares(x: Numbers, axis: int) -> Numbers:
    x -= np.maximum.reduce(x, axis=axis, keepdims=True)
    np.exp(x, out=x)
    x /= np.add.reduce(x, axis=axis, keepdims=True)
    return x


def _log_shares(x: Numbers, axis: int) -> Numbers:
    x -= np.maximum.reduce(x, axis=axis, keepdims=True)
    x -= np.log(np.add.reduce(np.exp(x), axis=axis, keepdims=True))
    return x


def _log_of_sum(x: Numbers, axis: int) -> Numbers:
    greatest = np.maximum.reduce(x, axis=axis, keepdims=True)
    greatest[np.isneginf(greatest)] = 0  # where all are -inf, so is the result, and not NaN
    x -= greatest
    with np.errstate(divide="ignore"):
        total: Numbers = np.log(np.add.reduce(np.exp(x, out=x), axis=axis, keepdims=True))
    total += greatest
    return total


def _logs_and_shares(x: Numbers, axis: int) -> tuple[Numbers, Numbers]:
    x -= np.maximum.reduce(x, axis=axis, keepdims=True)
    shares = np.exp(x)
    total = np.add.reduce(shares, axis=axis, keepdims=True)
    shares /= total
    x -= np.log(total)
    return x, shares


def _entries(logs: Numbers, index: Numbers) -> tuple[Numbers, Backward]:
    """Return the entry of each column of log-probabilities [A, N] that `index` names. The gradient is of rows."""
    rows = logs.shape[1]
    places = index * rows
    places += np.arange(rows)

    def backward_of(gradient: Numbers) -> Numbers:
        slope = np.exp(logs)
        slope *= gradient
        np.subtract(0, slope, out=slope)
        slope.reshape(-1)[places] += gradient
        turned: Numbers = slope.T.copy()
        return turned

    return logs.reshape(-1).take(places), backward_of


def _entropies(logs: Numbers, shares: Numbers, axis: int, shape: tuple[int, ...]) -> tuple[Numbers, Backward]:
    """Return the entropies of log-probabilities and probabilities, in columns (`axis` 0) or in rows, made of `shape`.

    The gradient is -p (log p + H).
    """
    logs = np.maximum(logs, SMALLEST_LOG_PROBABILITY)
    entropies = -np.add.reduce(shares * logs, axis=axis, keepdims=True)
    rows = math.prod(shape[:-1])  # a single one comes twice as a column

    def backward_of(gradient: Numbers) -> Numbers:
        slope: Numbers = logs + entropies
        slope *= shares
        slope *= np.negative(gradient).reshape((*shape[:-1], 1) if axis else (1, -1))
        return slope if axis else slope.T[:rows].copy().reshape(shape)

    return entropies.reshape(-1)[:rows].reshape(shape[:-1]), backward_of
