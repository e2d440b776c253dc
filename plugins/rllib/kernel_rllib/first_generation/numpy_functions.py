"""Functions of layers in numpy, as programs of the first generation use them beside their models."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from scipy.special import softmax as softmax_of

from kernel_rllib.arrays import Array


def sigmoid(x: Any, derivative: bool = False) -> Array:
    """Return the logistic function of numbers; with `derivative` x (1 - x), its slope where its values are `x`."""
    x = np.asarray(x)
    found: Array = x * (1 - x) if derivative else expit(x)
    return found


def softmax(x: Any, axis: int = -1) -> Array:
    """Return probabilities in proportion to exp(x) along an axis."""
    found: Array = softmax_of(np.asarray(x), axis=axis)
    return found


def relu(x: Any, alpha: float = 0.0) -> Array:
    """Return numbers above 0 as they are, and others times `alpha`."""
    x = np.asarray(x)
    found: Array = np.maximum(x, x * alpha)
    return found


def one_hot(x: Any, depth: int = 0, on_value: float = 1, off_value: float = 0) -> Array:
    """Return rows of `depth` numbers, all `off_value` but that at each index; 0: as many as the largest index needs."""
    indexes = np.asarray(x, np.int64)
    depth = depth or int(indexes.max()) + 1
    return np.where(np.arange(depth) == indexes[..., None], on_value, off_value).astype(np.float32)


def fc(x: Any, weights: Any, biases: Any = None, framework: str | None = None) -> Array:
    """Return x @ weights + biases.

    Args:
        x: Rows [N, inputs], arrays or tensors.
        weights: A matrix [inputs, outputs]; of torch [outputs, inputs].
        biases: Numbers [outputs]; None for 0.
        framework: `"torch"` where weights are as torch keeps them; tensors of torch tell it by themselves.
    """
    of_torch = framework == "torch" or type(weights).__module__.partition(".")[0] == "torch"
    matrix = _array(weights)
    found: Array = _array(x) @ (matrix.T if of_torch else matrix)
    return found if biases is None else found + _array(biases)


def lstm(
    x: Any,
    weights: Any,
    biases: Any = None,
    initial_internal_states: Any = None,
    time_major: bool = False,
    forget_bias: float = 1.0,
) -> tuple[Array, tuple[Array, Array]]:
    """Return what an LSTM gives at each step, and its last (c, h).

    Args:
        x: Sequences [B, T, inputs], or [T, B, inputs] where `time_major`.
        weights: A matrix [inputs + units, 4 * units], with the columns of the input gate, the candidates, the forget
            gate and the output gate.
        biases: Numbers [4 * units]; None for 0.
        initial_internal_states: (c, h), each [B, units]; None for 0.
        time_major: Whether the first axis is time.
        forget_bias: What is added to the input of the forget gate.
    """
    sequences = np.asarray(x) if time_major else np.swapaxes(np.asarray(x), 0, 1)
    weights = np.asarray(weights)
    units, batch = weights.shape[1] // 4, sequences.shape[1]
    zeros = np.zeros((batch, units), weights.dtype)
    c, h = (zeros, zeros) if initial_internal_states is None else map(np.asarray, initial_internal_states)
    given = np.zeros(4 * units, weights.dtype) if biases is None else np.asarray(biases)
    outputs = []
    for row in sequences:
        entering, candidate, forgetting, leaving = np.split(
            np.concatenate([row, h], axis=1) @ weights + given, 4, axis=1
        )
        c = c * expit(forgetting + forget_bias) + expit(entering) * np.tanh(candidate)
        h = np.tanh(c) * expit(leaving)
        outputs.append(h)
    found = np.stack(outputs)
    return (found if time_major else np.swapaxes(found, 0, 1)), (c, h)


def _array(value: Any) -> Array:
    found: Array = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
    return found
