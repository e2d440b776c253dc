"""An ensemble of networks that predict how observations change, all computed at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.modules.module import Initializer, Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

CHANGES = "changes"
"""The output: the predicted changes, as multiples of their deviations."""


class TransitionEnsemble(Module):
    """Dense networks, each with parameters of its own; each parameter has an axis for the networks in front."""

    def __init__(self, observations: int, actions: int, *, size: int, hidden: Sequence[int]) -> None:
        """Build it.

        Args:
            observations: The width of observations.
            actions: The width of actions.
            size: The number of networks.
            hidden: The widths of hidden layers.
        """
        self.size = size
        widths = [observations + actions, *hidden, observations]
        self._shapes = list(pairwise(widths))

    def parameters(self) -> Sequence[Parameter]:
        """Return all its parameters."""
        found = []
        for number, (inputs, outputs) in enumerate(self._shapes):
            weight = _each(initializers.glorot_uniform())
            found.append(Parameter(f"{number}/weight", (self.size, inputs, outputs), weight))
            found.append(Parameter(f"{number}/bias", (self.size, outputs), initializers.zeros()))
        return found

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `changes` [E, N, observations] for `obs` and `actions` [N, ...], or [E, N, ...] of each network."""
        x = nn.constant(np.concatenate([inputs[columns.OBS], inputs[columns.ACTIONS]], axis=-1))
        last = len(self._shapes) - 1
        for number in range(len(self._shapes)):
            activation = None if number == last else "swish"
            x = nn.linear(x, parameters[f"{number}/weight"], parameters[f"{number}/bias"], activation=activation)
        return {CHANGES: x}


def _each(initializer: Initializer) -> Initializer:
    """Return the initializer of several arrays by one of a single array."""

    def initialize(shape: tuple[int, ...], stream: Any) -> Array:
        return np.stack([initializer(shape[1:], stream) for _ in range(shape[0])])

    return initialize
