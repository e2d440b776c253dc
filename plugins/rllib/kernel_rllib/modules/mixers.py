"""Mix the values of a group's agents into one value: by their sum, or by a function that rises with each of them.

Both are monotonic: dQ_tot / dQ_a >= 0 (equation 5 of Rashid et al. 2018, arXiv 1803.11485). So the joint action that is
best by the value of the group is that in which each agent does what is best by its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernel_rllib.modules.layers import torch_dense
from kernel_rllib.modules.module import Parameter, Parameters
from kernel_rllib.nn.ops import Ops


class Mixer(Protocol):
    """Makes values of groups."""

    def parameters(self) -> Sequence[Parameter]:
        """Return its parameters."""
        ...

    def __call__(self, nn: Ops, parameters: Parameters, values: Any, state: Any) -> Any:
        """Return values [N, K] for those of the agents' actions [N, agents], in global states [N, S]."""
        ...


@dataclass(frozen=True)
class NoMixer:
    """Leaves each agent its own value: K is the number of agents (independent Q-learning, Tan 1993)."""

    def parameters(self) -> Sequence[Parameter]:
        """Return none."""
        return ()

    def __call__(self, nn: Ops, parameters: Parameters, values: Any, state: Any) -> Any:
        """Return the values [N, agents] as they are."""
        return values


@dataclass(frozen=True)
class SumMixer:
    """Adds the values up (value decomposition networks, Sunehag et al. 2017, arXiv 1706.05296)."""

    def parameters(self) -> Sequence[Parameter]:
        """Return none."""
        return ()

    def __call__(self, nn: Ops, parameters: Parameters, values: Any, state: Any) -> Any:
        """Return the sums [N, 1]."""
        return nn.sum(values, axis=1, keepdims=True)


@dataclass(frozen=True)
class MonotonicMixer:
    """A network whose weights are not negative, and come from networks of the global state (QMIX, section 4).

    Attributes:
        name: The prefix of its parameters' names.
        agents: The number of values that it takes.
        state: The width of the global state.
        width: The width of its hidden layer.
    """

    name: str
    agents: int
    state: int
    width: int

    def __post_init__(self) -> None:
        def hyper(part: str, inputs: int, outputs: int, activation: str | None = None) -> Any:
            return torch_dense(f"{self.name}/{part}", inputs, outputs, activation)

        layers = {
            "weight": hyper("weight", self.state, self.agents * self.width),
            "bias": hyper("bias", self.state, self.width),
            "last_weight": hyper("last_weight", self.state, self.width),
            "last_bias_hidden": hyper("last_bias_hidden", self.state, self.width, "relu"),
            "last_bias": hyper("last_bias", self.width, 1),
        }
        object.__setattr__(self, "_layers", layers)

    def parameters(self) -> Sequence[Parameter]:
        """Return those of the networks of the global state."""
        layers: dict[str, Any] = self._layers  # type: ignore[attr-defined]
        return [parameter for layer in layers.values() for parameter in layer.parameters()]

    def __call__(self, nn: Ops, parameters: Parameters, values: Any, state: Any) -> Any:
        """Return elu(q |W1(s)| + b1(s)) |w2(s)| + b2(s), as [N, 1]: figure 2 (a) and (b)."""
        made: dict[str, Any] = self._layers  # type: ignore[attr-defined]
        weight = nn.abs(made["weight"](nn, parameters, state))
        weight = nn.reshape(weight, (weight.shape[0], self.agents, self.width))
        hidden = nn.sum(nn.expand_dims(values, 2) * weight, axis=1) + made["bias"](nn, parameters, state)
        last = nn.abs(made["last_weight"](nn, parameters, state))
        bias = made["last_bias"](nn, parameters, made["last_bias_hidden"](nn, parameters, state))
        return nn.sum(nn.elu(hidden) * last, axis=1, keepdims=True) + bias
