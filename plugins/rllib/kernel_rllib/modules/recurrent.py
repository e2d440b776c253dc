"""Memories over steps, LSTM and GRU: one step while acting, whole sequences while learning (Hochreiter, 1997)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernel_rllib.data import columns
from kernel_rllib.modules.module import Inputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops


@dataclass(frozen=True)
class LSTM:
    """An LSTM layer: its state is its last output, and its cell.

    Attributes:
        name: The prefix of the names of its parameters and of its state.
        inputs: The width of what it takes.
        cells: The width of what it gives and remembers.
        horizon: The number of steps that it remembers at first; 0: biases begin at 0, and it forgets half in each step.
    """

    name: str
    inputs: int
    cells: int
    horizon: int = 0

    @property
    def outputs(self) -> int:
        """Return the width of what it gives."""
        return self.cells

    def parameters(self) -> list[Parameter]:
        """Return the weights of its four gates, side by side."""
        biases = initializers.chrono(self.horizon) if self.horizon else initializers.zeros()
        return [
            Parameter(f"{self.name}/weight_in", (self.inputs, 4 * self.cells), initializers.glorot_uniform()),
            Parameter(f"{self.name}/weight_state", (self.cells, 4 * self.cells), initializers.orthogonal(1.0)),
            Parameter(f"{self.name}/bias", (4 * self.cells,), biases),
        ]

    def state(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its state for one lane."""
        return {f"{self.name}_hidden": (self.cells,), f"{self.name}_cell": (self.cells,)}

    def __call__(self, nn: Ops, parameters: Parameters, x: Any, inputs: Inputs) -> tuple[Any, dict[str, Any]]:
        """Return what it gives, and its state afterwards.

        Args:
            nn: The operations.
            parameters: The parameters of the module.
            x: Features [N, inputs] of one step of N lanes, or [T, N, inputs] of T steps.
            inputs: `state_in` holds the state before the first step, arrays [N, cells]; of several steps, `resets`
                [T, N] is true where a step is the first of its episode: the state is cleared before it.

        Returns:
            Outputs [N, cells] or [T * N, cells], and the state after the last step.
        """
        state = inputs[columns.STATE_IN]
        hidden, cell = (nn.constant(state[f"{self.name}_{part}"]) for part in ("hidden", "cell"))
        weight = parameters[f"{self.name}/weight_state"]
        projected = nn.linear(x, parameters[f"{self.name}/weight_in"], parameters[f"{self.name}/bias"])
        if len(x.shape) == 2:
            hidden, cell = nn.lstm_cell(projected, hidden, cell, weight)
            given = hidden
        else:
            steps, hidden, cell = nn.lstm(projected, hidden, cell, weight, inputs[columns.RESETS])
            given = nn.reshape(steps, (x.shape[0] * x.shape[1], self.cells))
        return given, {f"{self.name}_hidden": hidden, f"{self.name}_cell": cell}


@dataclass(frozen=True)
class GRU:
    """A GRU layer, which is smaller than an LSTM (Cho et al., 2014): its state is its last output.

    Attributes:
        name: The prefix of the names of its parameters and of its state.
        inputs: The width of what it takes.
        cells: The width of what it gives and remembers.
    """

    name: str
    inputs: int
    cells: int

    @property
    def outputs(self) -> int:
        """Return the width of what it gives."""
        return self.cells

    def parameters(self) -> list[Parameter]:
        """Return the weights of its three gates, side by side: uniform up to 1 / sqrt(cells), as torch has them."""
        first, width = initializers.torch_linear(self.cells), 3 * self.cells
        return [
            Parameter(f"{self.name}/weight_in", (self.inputs, width), first),
            Parameter(f"{self.name}/bias_in", (width,), first),
            Parameter(f"{self.name}/weight_state", (self.cells, width), first),
            Parameter(f"{self.name}/bias_state", (width,), first),
        ]

    def state(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of its state for one lane."""
        return {f"{self.name}_hidden": (self.cells,)}

    def __call__(self, nn: Ops, parameters: Parameters, x: Any, inputs: Inputs) -> tuple[Any, dict[str, Any]]:
        """Return what it gives, and its state afterwards; the arguments are those of `LSTM`."""
        hidden = nn.constant(inputs[columns.STATE_IN][f"{self.name}_hidden"])
        weight, bias = parameters[f"{self.name}/weight_state"], parameters[f"{self.name}/bias_state"]
        projected = nn.linear(x, parameters[f"{self.name}/weight_in"], parameters[f"{self.name}/bias_in"])
        if len(x.shape) == 2:
            hidden = given = nn.gru_cell(projected, hidden, weight, bias)
        else:
            steps, hidden = nn.gru(projected, hidden, weight, bias, inputs[columns.RESETS])
            given = nn.reshape(steps, (x.shape[0] * x.shape[1], self.cells))
        return given, {f"{self.name}_hidden": hidden}
