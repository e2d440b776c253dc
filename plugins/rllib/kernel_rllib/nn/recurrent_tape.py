"""Recurrent layers on the tape: all steps are one entry of it, and one way back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernel_rllib.nn.memory import LARGE
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.recurrent import Numbers, gru_backward, gru_forward, lstm_backward, lstm_forward
from kernel_rllib.nn.tensor import Tape, Tensor, accumulate, value_of


class RecurrentTapeOps(NumpyOps):
    """The operations that go through time."""

    tape: Tape

    def lstm(
        self, projected: Any, hidden: Any, cell: Any, weight: Any, starts: Any | None = None
    ) -> tuple[Any, Any, Any]:
        inputs = (projected, hidden, cell, weight)
        if not any(isinstance(value, Tensor) for value in inputs):
            return super().lstm(projected, hidden, cell, weight, value_of(starts))
        trace = lstm_forward(*map(value_of, inputs), starts=value_of(starts), room=self._room)  # type: ignore[misc]
        hiddens, last_cell = Tensor(trace.hiddens, self.tape), Tensor(trace.cells[-1], self.tape)
        of_cell: list[Any] = [None]

        def backward_of_cell(gradient: Any) -> None:  # the first of the two on the way back
            of_cell[0] = gradient
            if hiddens.gradient is None:
                hiddens.gradient = np.zeros_like(trace.hiddens)

        def backward(gradient: Any) -> None:
            gradients = lstm_backward(trace, value_of(weight), gradient, of_cell[0], self._room)
            self._finish(inputs, gradients, trace[:-1])

        self.tape.append((hiddens, backward))
        self.tape.append((last_cell, backward_of_cell))
        return hiddens, hiddens[-1], last_cell

    def lstm_cell(self, projected: Any, hidden: Any, cell: Any, weight: Any) -> tuple[Any, Any]:
        return self.lstm(self.expand_dims(projected, 0), hidden, cell, weight)[1:]

    def gru(self, projected: Any, hidden: Any, weight: Any, bias: Any, starts: Any | None = None) -> tuple[Any, Any]:
        inputs = (projected, hidden, weight, bias)
        if not any(isinstance(value, Tensor) for value in inputs):
            return super().gru(projected, hidden, weight, bias, value_of(starts))
        trace = gru_forward(*map(value_of, inputs), starts=value_of(starts), room=self._room)  # type: ignore[misc]
        hiddens = Tensor(trace.hiddens, self.tape)

        def backward(gradient: Any) -> None:
            self._finish(inputs, gru_backward(trace, value_of(weight), gradient, self._room), trace[:-1])

        self.tape.append((hiddens, backward))
        return hiddens, hiddens[-1]

    def gru_cell(self, projected: Any, hidden: Any, weight: Any, bias: Any) -> Any:
        return self.gru(self.expand_dims(projected, 0), hidden, weight, bias)[1]

    def _room(self, shape: tuple[int, ...]) -> Numbers:
        return self.tape.memory.room(shape) if math.prod(shape) >= LARGE else np.empty(shape, self.dtype)

    def _finish(self, inputs: Sequence[Any], gradients: Sequence[Any], trace: Sequence[Numbers]) -> None:
        """Add to the gradients of the inputs that are tensors, and keep the memory of a trace."""
        for value, gradient in zip(inputs, gradients, strict=True):
            if isinstance(value, Tensor):
                accumulate(value, gradient)
        for array in trace:
            self.tape.memory.keep(array)
