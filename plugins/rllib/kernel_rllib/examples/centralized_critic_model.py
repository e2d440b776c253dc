"""A policy that sees a part of what it is given, and a value function that sees all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_rllib.data import columns
from kernel_rllib.modules.contracts import PolicyModule
from kernel_rllib.modules.layers import Dense, stack
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops


class CentralizedCriticModel(PolicyModule):
    """The first columns of observations are the agent's own; those that follow are there only while it learns."""

    def __init__(self, num_outputs: int, own: int, seen: int, hiddens: Sequence[int] = (64,)) -> None:
        """Build it.

        Args:
            num_outputs: The number of outputs of the policy.
            own: The number of columns that the policy sees.
            seen: The number of columns that the value function sees, the policy's included.
            hiddens: The widths of the hidden layers of each.
        """
        self.own = own
        gain = initializers.orthogonal(2**0.5)
        self.policy_body = stack("policy/body", own, hiddens, "tanh", gain)
        self.policy_head = Dense("policy/head", hiddens[-1], num_outputs, None, initializers.orthogonal(0.01))
        self.value_body = stack("value/body", seen, hiddens, "tanh", gain)
        self.value_head = Dense("value/head", hiddens[-1], 1, None, initializers.orthogonal(1.0))

    def parameters(self) -> Sequence[Parameter]:
        """Return all parameters."""
        layers = (self.policy_body, self.policy_head, self.value_body, self.value_head)
        return [parameter for layer in layers for parameter in layer.parameters()]

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what acting needs: it takes rows with the agent's own columns alone, too."""
        own = nn.constant(inputs[columns.OBS][..., : self.own])
        given = self.policy_head(nn, parameters, self.policy_body(nn, parameters, own))
        return {columns.ACTION_DIST_INPUTS: given}

    def values(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Any:
        """Return the values [N] of all that is seen."""
        features = self.value_body(nn, parameters, nn.constant(inputs[columns.OBS]))
        value = self.value_head(nn, parameters, features)
        return nn.reshape(value, (value.shape[0],))

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what the loss needs."""
        return {**self.explore(nn, parameters, inputs), columns.VF_PREDS: self.values(nn, parameters, inputs)}
