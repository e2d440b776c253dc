"""Layers as data: each says which parameters it has, and applies them by the operations that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from kernel_rllib.modules.module import Initializer, Inputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops


class Body(Protocol):
    """Computes features from observations: layers of any kind."""

    @property
    def outputs(self) -> int:
        """Return the width of features."""
        ...

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all layers."""
        ...

    def __call__(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return features [..., outputs] for observations [..., *shape]."""
        ...


class Memory(Protocol):
    """Computes features from features and from its state of the steps before."""

    @property
    def outputs(self) -> int:
        """Return the width of what it gives."""
        ...

    def parameters(self) -> list[Parameter]:
        """Return its parameters."""
        ...

    def state(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its state for one lane, by their names."""
        ...

    def __call__(self, nn: Ops, parameters: Parameters, x: Any, inputs: Inputs) -> tuple[Any, dict[str, Any]]:
        """Return what it gives for one step or several, and its state afterwards; see `LSTM`."""
        ...


@dataclass(frozen=True)
class Dense:
    """A linear layer with an activation: `activation(x @ weight + bias)`.

    Attributes:
        name: The prefix of its parameters' names.
        inputs: The width of what it takes.
        outputs: The width of what it gives.
        activation: The name of an activation, or None.
        initializer: The initializer of its weight.
        bias_initializer: The initializer of its bias.
    """

    name: str
    inputs: int
    outputs: int
    activation: str | None
    initializer: Initializer
    bias_initializer: Initializer = field(default_factory=initializers.zeros)

    def parameters(self) -> list[Parameter]:
        """Return its weight and its bias."""
        return [
            Parameter(f"{self.name}/weight", (self.inputs, self.outputs), self.initializer),
            Parameter(f"{self.name}/bias", (self.outputs,), self.bias_initializer),
        ]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return [N, outputs] for x [N, inputs]."""
        weight, bias = parameters[f"{self.name}/weight"], parameters[f"{self.name}/bias"]
        return nn.linear(x, weight, bias, activation=self.activation)


@dataclass(frozen=True)
class Stack:
    """Dense layers, one after another.

    Attributes:
        layers: The layers, the first one first.
        inputs: The width of what the first one takes.
    """

    layers: tuple[Dense, ...]
    inputs: int

    @property
    def outputs(self) -> int:
        """Return the width of what the last one gives: that of the input where there is none."""
        return self.layers[-1].outputs if self.layers else self.inputs

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all layers."""
        return [parameter for layer in self.layers for parameter in layer.parameters()]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return [N, outputs] for x [N, inputs]."""
        for layer in self.layers:
            x = layer(nn, parameters, x)
        return x


def stack(name: str, inputs: int, widths: Sequence[int], activation: str | None, initializer: Initializer) -> Stack:
    """Return hidden layers of these widths, named `name/0`, `name/1` and so on."""
    return mixed_stack(name, inputs, [(width, activation) for width in widths], initializer)


def mixed_stack(name: str, inputs: int, layers: Sequence[tuple[int, str | None]], initializer: Initializer) -> Stack:
    """Return hidden layers of these widths and activations; see `stack`."""
    sizes = pairwise([inputs, *(width for width, _ in layers)])
    made = [
        Dense(f"{name}/{index}", before, after, activation, initializer)
        for index, ((before, after), (_, activation)) in enumerate(zip(sizes, layers, strict=True))
    ]
    return Stack(tuple(made), inputs)


def torch_dense(name: str, inputs: int, outputs: int, activation: str | None) -> Dense:
    """Return a layer that begins as torch's `Linear` does: weight and bias uniform, up to 1 / sqrt(inputs)."""
    return Dense(name, inputs, outputs, activation, initializers.torch_linear(), initializers.torch_linear(inputs))


def torch_stack(name: str, inputs: int, widths: Sequence[int], activation: str | None) -> Stack:
    """Return hidden layers of these widths that begin as torch's `Linear` does; see `stack`."""
    sizes = pairwise([inputs, *widths])
    layers = [torch_dense(f"{name}/{index}", *size, activation) for index, size in enumerate(sizes)]
    return Stack(tuple(layers), inputs)


def activated(nn: Ops, x: Any, activation: str | None) -> Any:
    """Return an activation of x, by its name; `linear` gives no layer an activation of its own, this does."""
    if activation in (None, "linear"):
        return x
    return getattr(nn, "silu" if activation == "swish" else activation)(x)
