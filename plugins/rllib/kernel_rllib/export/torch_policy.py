"""A policy as one file of torch: `torch.load("model.pt", weights_only=False)` is a module that computes its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch

from kernel_rllib.arrays import Array
from kernel_rllib.checkpoints.files import naming
from kernel_rllib.data import columns
from kernel_rllib.modules.module import Module
from kernel_rllib.nn.torch_ops import TorchOps


class TorchPolicyModel(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """The network of a policy. It needs `kernel_rllib` where it is loaded, and no algorithm."""

    def __init__(self, module: Module, weights: Array) -> None:
        """Compute by this module, with these parameters [size]."""
        super().__init__()
        self.network = module
        self.weights = torch.nn.Parameter(torch.tensor(np.asarray(weights, np.float32)))

    def forward(self, obs: torch.Tensor, state_in: Mapping[str, torch.Tensor] | None = None) -> dict[str, Any]:
        """Return what choosing the best known actions needs, such as `action_dist_inputs` or `q_values`.

        Args:
            obs: Observations as preprocessors make them, [N, ...].
            state_in: The state of a network, as its last call returned in `state_out`; None at first.
        """
        inputs: dict[str, Any] = {columns.OBS: obs}
        if self.network.state():
            begins = self.network.initial_state().items()
            first = {name: torch.tensor(np.repeat(value[None], len(obs), axis=0)) for name, value in begins}
            inputs[columns.STATE_IN] = dict(state_in or first)
        parameters = self.network.table.views(self.weights)
        return dict(self.network.infer(TorchOps(self.weights.dtype, self.weights.device), parameters, inputs))


def write_torch_policy(file: Path, module: Module, weights: Array) -> None:
    """Write a policy into one file."""
    with naming(file):
        torch.save(TorchPolicyModel(module, weights), file, pickle_module=cloudpickle)
