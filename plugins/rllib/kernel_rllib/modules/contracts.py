"""Contracts between algorithms and modules beside outputs: values of observations, or values of actions."""

from __future__ import annotations

from typing import Any

from kernel_rllib.data import columns
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameters
from kernel_rllib.nn.ops import Ops


class PolicyModule(Module):
    """A module of policy-gradient algorithms: `train` gives `action_dist_inputs` [N, P] and `vf_preds` [N]."""

    def values(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Any:
        """Return the values [N] of observations; by default `vf_preds` of `train`."""
        return self.train(nn, parameters, inputs)[columns.VF_PREDS]


class QModule(Module):
    """A module of Q-learning: `train` gives `q_values` [N, A], or something of which `values` makes them."""

    def values(self, nn: Ops, outputs: Outputs) -> Any:
        """Return the values of actions [N, A] of what `train` gave; by default its `q_values`."""
        return outputs[columns.Q_VALUES]

    @property
    def training_noise_width(self) -> int:
        """Return how many numbers of noise `train` takes; by default as many as exploring does."""
        return self.noise_width
