"""The module of an agent that learns beside others: a policy of what it sees, and a critic of what all see and do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_rllib.data import columns
from kernel_rllib.modules.actor_q_critics import CRITICS, POLICY, HiddenLayers
from kernel_rllib.modules.layers import Dense, Stack, stack
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops


class AgentWithCentralCritic(Module):
    """A policy, and a critic that judges the observations and actions of all (Lowe et al. 2017, figure 1)."""

    def __init__(
        self,
        observations: int,
        distribution_inputs: int,
        *,
        judged_observations: int,
        judged_actions: int,
        policy: HiddenLayers,
        critic: HiddenLayers,
    ) -> None:
        """Build it.

        Args:
            observations: The width of what the agent sees.
            distribution_inputs: The number of outputs of the policy.
            judged_observations: The width of all observations that the critic takes.
            judged_actions: The width of all actions that it takes.
            policy: The policy's hidden layers.
            critic: The critic's hidden layers.
        """
        self.policy = _network(f"{POLICY}body", observations, policy, distribution_inputs)
        self.critic = _network(f"{CRITICS}0", judged_observations + judged_actions, critic, 1)

    def parameters(self) -> Sequence[Parameter]:
        """Return the policy's parameters, and the critic's."""
        return [*self.policy.parameters(), *self.critic.parameters()]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P] of the policy; the critic is asked by `q_values`."""
        return {columns.ACTION_DIST_INPUTS: self.policy(nn, parameters, nn.constant(inputs[columns.OBS]))}

    def q_values(self, nn: Ops, parameters: Parameters, obs: Any, actions: Any) -> Any:
        """Return what the critic gives [N] for all observations [N, X] with all actions [N, U], as rows of floats."""
        values = self.critic(nn, parameters, nn.concat([nn.constant(obs), actions], axis=-1))
        return nn.reshape(values, (values.shape[0],))


def _network(name: str, inputs: int, hidden: HiddenLayers, outputs: int) -> Stack:
    first = initializers.torch_linear()
    body = stack(name, inputs, hidden.widths, hidden.activation, first)
    return Stack((*body.layers, Dense(f"{name}/head", body.outputs, outputs, None, first)), inputs)
