"""Modules of users in torch: policies with values, and values of actions, out of networks of any generation.

A network is one of three kinds: a `TorchModelV2`, which has a `value_function`; a `TorchRLModule`, which returns
columns by name; or a plain `torch.nn.Module`, which returns outputs, or outputs and values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn as layers

from kernel_rllib.data import columns
from kernel_rllib.errors import ModuleError
from kernel_rllib.modules.contracts import PolicyModule, QModule
from kernel_rllib.modules.model_v2 import TorchModelV2
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.modules.rl_module import TorchRLModule
from kernel_rllib.modules.torch_network import Forward, TorchNetwork
from kernel_rllib.nn.ops import Ops

NAME = "model"
QF_PREDS = "qf_preds"
Unflatten = Callable[[Any], Any]
"""Makes what the environment observes, in its shape, of rows [N, ...]."""


class TorchPolicyModule(PolicyModule):
    """A user's network as the module of a policy-gradient algorithm."""

    def __init__(self, network: layers.Module, outputs: int, unflatten: Unflatten) -> None:
        """Take a network.

        Args:
            network: The network.
            outputs: How many numbers the action distribution is made of.
            unflatten: Makes what it takes of rows of observations.
        """
        self.network = TorchNetwork(NAME, network)
        self._outputs, self._unflatten = outputs, unflatten

    @property
    def learns_in(self) -> str:
        """Return `"torch"`."""
        return "torch"

    def parameters(self) -> Sequence[Parameter]:
        """Return the parameters of the network."""
        return self.network.parameters()

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P] and `vf_preds` [N]."""
        return self._run(nn, parameters, inputs, self._forward("_forward_train", with_values=True))

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P]."""
        return self._run(nn, parameters, inputs, self._forward("_forward_exploration", with_values=False))

    def infer(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P]."""
        return self._run(nn, parameters, inputs, self._forward("_forward_inference", with_values=False))

    def own_loss(self, nn: Ops, parameters: Parameters, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
        """Return the loss as `custom_loss` of the network changes it, and its metrics."""
        return _changed_loss(self.network.network, total, batch)

    def _run(self, nn: Ops, parameters: Parameters, inputs: Inputs, forward: Forward) -> Outputs:
        return self.network.run(nn, parameters, inputs[columns.OBS], forward)

    def _forward(self, method: str, *, with_values: bool) -> Forward:
        def forward(network: layers.Module, rows: torch.Tensor) -> dict[str, torch.Tensor]:
            outputs, values = _outputs_of(network, self._unflatten, rows, method, with_values=with_values)
            _check(network, "outputs", outputs, (len(rows), self._outputs))
            found = {columns.ACTION_DIST_INPUTS: outputs}
            if with_values:
                if values is None:
                    raise ModuleError(_no_values(network))
                values = values.squeeze(-1) if values.ndim == 2 and values.shape[-1] == 1 else values
                _check(network, "values", values, (len(rows),))
                found[columns.VF_PREDS] = values
            return found

        return forward


class TorchQModule(QModule):
    """A user's network that gives a value for each action."""

    def __init__(self, network: layers.Module, actions: int, unflatten: Unflatten) -> None:
        """Take a network, how many actions there are, and what makes its inputs of rows; see `TorchPolicyModule`."""
        self.network = TorchNetwork(NAME, network)
        self._actions, self._unflatten = actions, unflatten

    @property
    def learns_in(self) -> str:
        """Return `"torch"`."""
        return "torch"

    def parameters(self) -> Sequence[Parameter]:
        """Return the parameters of the network."""
        return self.network.parameters()

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` [N, A]."""

        def forward(network: layers.Module, rows: torch.Tensor) -> dict[str, torch.Tensor]:
            values, _ = _outputs_of(network, self._unflatten, rows, "_forward_train", with_values=False)
            _check(network, "outputs", values, (len(rows), self._actions))
            return {columns.Q_VALUES: values}

        return self.network.run(nn, parameters, inputs[columns.OBS], forward)

    def own_loss(self, nn: Ops, parameters: Parameters, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
        """Return the loss as `custom_loss` of the network changes it, and its metrics."""
        return _changed_loss(self.network.network, total, batch)


def _changed_loss(network: Any, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
    if not isinstance(network, TorchModelV2):
        return total, {}
    changed = network.custom_loss(total, batch)
    changed = changed[0] if isinstance(changed, (list, tuple)) else changed
    return changed, {f"model/{name}": value for name, value in network.metrics().items()}


def _outputs_of(
    network: Any, unflatten: Unflatten, rows: torch.Tensor, method: str, *, with_values: bool
) -> tuple[Any, Any]:
    """Return outputs and values of a network for rows of observations; values may be None."""
    obs = unflatten(rows)
    if hasattr(network, "value_function"):
        inputs = {"obs": obs, "obs_flat": rows.flatten(1), "is_training": network.training}
        outputs, _ = network(inputs, [], None)
        return outputs, _value_function(network) if with_values else None
    if isinstance(network, TorchRLModule):
        batch = {columns.OBS: obs}
        found = getattr(network, method)(batch)
        outputs = next((found[name] for name in (columns.ACTION_DIST_INPUTS, QF_PREDS) if name in found), None)
        if outputs is None:
            raise ModuleError(
                f"{type(network).__name__}.{method}() returned {', '.join(found) or 'nothing'}, and "
                f"{columns.ACTION_DIST_INPUTS!r} or, of Q-learning, {QF_PREDS!r} was expected; return one of them"
            )
        return outputs, network.compute_values(batch) if with_values else None
    found = network(obs)
    return found if isinstance(found, tuple) else (found, None)


def _value_function(network: TorchModelV2) -> Any:
    try:
        return network.value_function()
    except NotImplementedError:
        raise ModuleError(_no_values(network)) from None


def _no_values(network: Any) -> str:
    how = "define value_function(self), which returns the values [N] of the last forward pass"
    if isinstance(network, TorchRLModule):
        how = "define compute_values(self, batch), which returns the values [N] of its observations"
    elif not isinstance(network, TorchModelV2):
        how = "return a pair from forward: the outputs [N, P], and the values [N]"
    return f"{type(network).__name__} gives no values of observations, which this algorithm needs; {how}"


def _check(network: Any, what: str, found: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(found, torch.Tensor) or tuple(found.shape) != shape:
        given = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise ModuleError(
            f"{type(network).__name__} returned {what} of shape {given} for {shape[0]} rows of observations, and "
            f"{list(shape)} was expected; the width of outputs is what it is told as num_outputs"
        )
