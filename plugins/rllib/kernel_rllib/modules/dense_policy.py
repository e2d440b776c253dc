"""A policy alone: dense layers from observations to the numbers that a distribution of actions is made of."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_rllib.data import columns
from kernel_rllib.modules.layers import Dense, stack
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

HEAD_GAIN = 0.01
"""The gain of the initial weights of the last layer: small, so that no action is preferred at first."""


class DensePolicy(Module):
    """A policy without a value function; linear where it has no hidden layers.

    Parameters may have an axis for lanes in front, `[L, ...]`: observations are `[L, 1, F]` then, and each lane acts by
    parameters of its own.
    """

    def __init__(
        self, observations: int, outputs: int, *, hidden: Sequence[int] = (), activation: str = "tanh"
    ) -> None:
        """Build it.

        Args:
            observations: The width of observations.
            outputs: The number of parameters of the action distribution.
            hidden: The widths of hidden layers.
            activation: The name of their activation.
        """
        self.body = stack("policy", observations, hidden, activation, initializers.orthogonal(2**0.5))
        self.head = Dense("policy/head", self.body.outputs, outputs, None, initializers.orthogonal(HEAD_GAIN))

    def parameters(self) -> Sequence[Parameter]:
        """Return all its parameters."""
        return [*self.body.parameters(), *self.head.parameters()]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P], or [L, 1, P] of lanes with parameters of their own."""
        features = self.body(nn, parameters, inputs[columns.OBS])
        return {columns.ACTION_DIST_INPUTS: self.head(nn, parameters, features)}
