"""The module of Q-learning with a memory (Kapturowski et al., 2019, R2D2): dense layers, an LSTM, and the heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernel_rllib.data import columns
from kernel_rllib.modules.contracts import QModule
from kernel_rllib.modules.layers import Dense, torch_dense, torch_stack
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.modules.q_network import QNetworkOptions, through
from kernel_rllib.modules.recurrent import LSTM
from kernel_rllib.nn.ops import Ops


class RecurrentQNetwork(QModule):
    """Values of all actions of a discrete space, by what was observed up to now."""

    def __init__(
        self, observations: int, actions: int, cells: int, horizon: int, options: QNetworkOptions | None = None
    ) -> None:
        """Build it.

        Args:
            observations: The width of what is observed.
            actions: The number of actions.
            cells: The width of the memory.
            horizon: The number of steps that it remembers at first.
            options: The options of the layers around it. Those of noise, atoms and convolutions don't count.
        """
        self.options = options = options or QNetworkOptions()
        self.body = torch_stack("body", observations, options.hidden, options.activation)
        self.memory = LSTM("memory", self.body.outputs, cells, horizon)
        self.advantage = self._head("advantage", cells, actions)
        self.value = self._head("value", cells, 1) if options.dueling else ()

    def parameters(self) -> Sequence[Parameter]:
        """Return all its parameters."""
        heads = [parameter for layer in (*self.advantage, *self.value) for parameter in layer.parameters()]
        return [*self.body.parameters(), *self.memory.parameters(), *heads]

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return the state of its memory."""
        return self.memory.state()

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` [N, A] and `state_out`. Of several steps `obs` is [T, N, ...], and rows are T * N."""
        features = self.body(nn, parameters, nn.constant(inputs[columns.OBS]))
        given, state = self.memory(nn, parameters, features, inputs)
        values = through(nn, parameters, self.advantage, given, None)
        if self.value:
            centred = values - nn.mean(values, axis=1, keepdims=True)
            values = through(nn, parameters, self.value, given, None) + centred
        return {columns.Q_VALUES: values, columns.STATE_OUT: state}

    def _head(self, name: str, inputs: int, outputs: int) -> tuple[Dense, ...]:
        widths = [inputs, *self.options.heads, outputs]
        activations = [*[self.options.head_activation] * len(self.options.heads), None]
        pairs = enumerate(zip(widths[:-1], widths[1:], activations, strict=True))
        return tuple(torch_dense(f"{name}/{index}", *pair) for index, pair in pairs)
