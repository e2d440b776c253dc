"""Recurrent layers over T steps, forward and backward through time, on numpy arrays.

One pass over all steps, not one node of the tape for each: the products with the input are one product for all steps,
and so is the gradient of the weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.nn.products import product

Numbers = NDArray[Any]
Room = Callable[[tuple[int, ...]], Numbers]
"""Returns an array of a shape, with anything in it."""


class LSTMTrace(NamedTuple):
    """Holds the intermediate results of an LSTM's steps for the backward pass; each array begins with T."""

    gates: Numbers
    """Input, forget, candidate and output after their activations [T, N, 4H]."""
    hiddens: Numbers
    cells: Numbers
    squashed_cells: Numbers
    previous_hiddens: Numbers
    """The states that each step began with, zero where an episode began [T, N, H]."""
    previous_cells: Numbers
    going_on: list[Numbers | None]
    """For each step where an episode began, zeros there and ones elsewhere [N, 1]."""


def lstm_forward(
    projected: Numbers,
    hidden: Numbers,
    cell: Numbers,
    weight: Numbers,
    starts: Any | None = None,
    room: Room | None = None,
    row_block: int | None = None,
) -> LSTMTrace:
    """Run an LSTM; the arguments are those of `Ops.lstm`. `room` finds memory for what the steps leave."""
    steps, rows, width = projected.shape[0], projected.shape[1], weight.shape[0]
    room = room or _fresh(projected.dtype)
    gates = room(projected.shape)
    hiddens, cells, squashed_cells, previous_hiddens, previous_cells = (room((steps, rows, width)) for _ in range(5))
    going_on = _going_on(starts, steps, gates.dtype)
    for t in range(steps):
        _begin_step(previous_hiddens[t], hidden, going_on[t])
        _begin_step(previous_cells[t], cell, going_on[t])
        gate = product(previous_hiddens[t], weight, row_block, gates[t])
        gate += projected[t]
        _sigmoid_in_place(gate[:, : 2 * width])
        candidate = np.tanh(gate[:, 2 * width : 3 * width], out=gate[:, 2 * width : 3 * width])
        _sigmoid_in_place(gate[:, 3 * width :])
        cell, hidden = cells[t], hiddens[t]
        np.multiply(gate[:, width : 2 * width], previous_cells[t], out=cell)
        cell += gate[:, :width] * candidate
        np.multiply(gate[:, 3 * width :], np.tanh(cell, out=squashed_cells[t]), out=hidden)
    return LSTMTrace(gates, hiddens, cells, squashed_cells, previous_hiddens, previous_cells, going_on)


def lstm_backward(
    trace: LSTMTrace,
    weight: Numbers,
    hiddens_gradient: Numbers,
    cell_gradient: Numbers | None,
    room: Room | None = None,
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the gradients of `projected`, of the first hidden and cell state, and of `weight`.

    `hiddens_gradient` [T, N, H] belongs to all hidden states, `cell_gradient` [N, H] to the last cell state.
    """
    steps, rows, width = trace.hiddens.shape
    room = room or _fresh(trace.gates.dtype)
    gradient = room(trace.gates.shape)
    slopes = np.empty_like(trace.gates[0])
    hidden_gradient = np.zeros((rows, width), gradient.dtype)
    cell_gradient = np.zeros_like(hidden_gradient) if cell_gradient is None else cell_gradient.copy()
    turned = _turned(weight, steps)
    for t in range(steps - 1, -1, -1):
        hidden_gradient += hiddens_gradient[t]
        squashed, gate, out = trace.squashed_cells[t], trace.gates[t], gradient[t]
        into, keep, candidate, show = (gate[:, k * width : (k + 1) * width] for k in range(4))
        slope = squashed * squashed
        np.subtract(1, slope, out=slope)
        slope *= show
        slope *= hidden_gradient
        cell_gradient += slope
        np.multiply(cell_gradient, candidate, out=out[:, :width])
        np.multiply(cell_gradient, trace.previous_cells[t], out=out[:, width : 2 * width])
        np.multiply(cell_gradient, into, out=out[:, 2 * width : 3 * width])
        np.multiply(hidden_gradient, squashed, out=out[:, 3 * width :])
        np.subtract(1, gate, out=slopes)
        slopes *= gate
        np.multiply(candidate, candidate, out=slopes[:, 2 * width : 3 * width])
        np.subtract(1, slopes[:, 2 * width : 3 * width], out=slopes[:, 2 * width : 3 * width])
        out *= slopes
        cell_gradient *= keep
        np.dot(out, turned, out=hidden_gradient)
        _stop_at_starts(trace.going_on[t], hidden_gradient, cell_gradient)
    return gradient, hidden_gradient, cell_gradient, _weight_gradient(trace.previous_hiddens, gradient)


class GRUTrace(NamedTuple):
    """Holds the intermediate results of a GRU's steps for the backward pass; each array begins with T."""

    gates: Numbers
    """Reset, update and candidate after their activations [T, N, 3H]."""
    hiddens: Numbers
    previous_hiddens: Numbers
    """The states that each step began with, zero where an episode began [T, N, H]."""
    remembered: Numbers
    """The hidden state's part of the candidate, before the reset gate [T, N, H]."""
    going_on: list[Numbers | None]
    """For each step where an episode began, zeros there and ones elsewhere [N, 1]."""


def gru_forward(
    projected: Numbers,
    hidden: Numbers,
    weight: Numbers,
    bias: Numbers,
    starts: Any | None = None,
    room: Room | None = None,
    row_block: int | None = None,
) -> GRUTrace:
    """Run a GRU; the arguments are those of `Ops.gru`. `room` finds memory for what the steps leave."""
    steps, rows, width = projected.shape[0], projected.shape[1], weight.shape[0]
    room = room or _fresh(projected.dtype)
    gates = room(projected.shape)
    hiddens, previous_hiddens, remembered = (room((steps, rows, width)) for _ in range(3))
    going_on = _going_on(starts, steps, gates.dtype)
    for t in range(steps):
        before = previous_hiddens[t]
        _begin_step(before, hidden, going_on[t])
        gate = product(before, weight, row_block, gates[t])
        gate += bias
        reset_and_update, candidate = gate[:, : 2 * width], gate[:, 2 * width :]
        remembered[t] = candidate
        reset_and_update += projected[t, :, : 2 * width]
        _sigmoid_in_place(reset_and_update)
        candidate *= reset_and_update[:, :width]
        candidate += projected[t, :, 2 * width :]
        np.tanh(candidate, out=candidate)
        hidden = np.subtract(before, candidate, out=hiddens[t])
        hidden *= reset_and_update[:, width:]
        hidden += candidate
    return GRUTrace(gates, hiddens, previous_hiddens, remembered, going_on)


def gru_backward(
    trace: GRUTrace, weight: Numbers, hiddens_gradient: Numbers, room: Room | None = None
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the gradients of `projected`, of the first hidden state, of `weight` and of `bias`.

    `hiddens_gradient` [T, N, H] belongs to all hidden states.
    """
    steps, rows, width = trace.hiddens.shape
    room = room or _fresh(trace.gates.dtype)
    gradient, recalled_gradient = room(trace.gates.shape), room(trace.gates.shape)
    hidden_gradient = np.zeros((rows, width), gradient.dtype)
    turned = _turned(weight, steps)
    for t in range(steps - 1, -1, -1):
        hidden_gradient += hiddens_gradient[t]
        gate, out, recalled = trace.gates[t], gradient[t], recalled_gradient[t]
        reset, update, candidate = (gate[:, k * width : (k + 1) * width] for k in range(3))
        slope = candidate * candidate
        np.subtract(1, slope, out=slope)
        slope *= hidden_gradient
        slope *= 1 - update
        out[:, 2 * width :] = slope
        np.multiply(slope, reset, out=recalled[:, 2 * width :])
        np.multiply(slope, trace.remembered[t], out=out[:, :width])
        np.subtract(trace.previous_hiddens[t], candidate, out=out[:, width : 2 * width])
        out[:, width : 2 * width] *= hidden_gradient
        slopes = 1 - gate[:, : 2 * width]
        slopes *= gate[:, : 2 * width]
        out[:, : 2 * width] *= slopes
        recalled[:, : 2 * width] = out[:, : 2 * width]
        hidden_gradient *= update
        hidden_gradient += recalled @ turned
        _stop_at_starts(trace.going_on[t], hidden_gradient)
    bias_gradient = np.add.reduce(recalled_gradient, axis=(0, 1))
    return gradient, hidden_gradient, _weight_gradient(trace.previous_hiddens, recalled_gradient), bias_gradient


def _fresh(dtype: Any) -> Room:
    return lambda shape: np.empty(shape, dtype)


def _going_on(starts: Any | None, steps: int, dtype: Any) -> list[Numbers | None]:
    """Return for each step zeros where an episode begins and ones elsewhere, None for a step where none begins."""
    if starts is None:
        return [None] * steps
    starts = np.asarray(starts, bool)
    return [(~row).astype(dtype)[:, None] if row.any() else None for row in starts]


def _begin_step(before: Numbers, state: Numbers, going_on: Numbers | None) -> None:
    """Write the state that a step begins with to `before`."""
    if going_on is None:
        before[...] = state
    else:
        np.multiply(state, going_on, out=before)


def _stop_at_starts(going_on: Numbers | None, *gradients: Numbers) -> None:
    """Let no gradient pass from an episode to the one before."""
    if going_on is not None:
        for gradient in gradients:
            gradient *= going_on


def _sigmoid_in_place(x: Numbers) -> None:
    """Write 1 / (1 + exp(-x)) to x. By tanh it is quicker, and gates need no small shares exactly."""
    x *= 0.5
    np.tanh(x, out=x)
    x *= 0.5
    x += 0.5


def _turned(weight: Numbers, steps: int) -> Numbers:
    """Return the transposed weight: for many products a copy, which BLAS multiplies by a quarter quicker."""
    return np.ascontiguousarray(weight.T) if steps > 8 else weight.T


def _weight_gradient(previous: Numbers, gradient: Numbers) -> Numbers:
    """Return the sum over steps and rows of the outer products."""
    product: Numbers = previous.reshape(-1, previous.shape[-1]).T @ gradient.reshape(-1, gradient.shape[-1])
    return product
