"""Modules of users in torch: policies with values, and values of actions, out of networks of any generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn as layers

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.errors import ModuleError
from kernel_rllib.modules.contracts import PolicyModule, QModule
from kernel_rllib.modules.episode_pieces import episode_pieces
from kernel_rllib.modules.model_v2 import TorchModelV2
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.modules.previous_step import PreviousStep
from kernel_rllib.modules.torch_calls import Answer, NetworkCall, Unflatten, answer_of, initial_state_of, no_values
from kernel_rllib.modules.torch_network import Forward, TorchNetwork
from kernel_rllib.nn.ops import Ops

NAME = "model"
BEFORE, AFTER = f"{columns.STATE_IN}.", f"{columns.STATE_OUT}."
"""The prefixes of the names of the state, among inputs and outputs."""


class TorchPolicyModule(PolicyModule):
    """Wraps a user's network as the module of a policy-gradient algorithm."""

    def __init__(
        self, network: layers.Module, outputs: int, unflatten: Unflatten, previous: PreviousStep | None = None
    ) -> None:
        """Take a network.

        Args:
            network: The network.
            outputs: The number of parameters of the action distribution.
            unflatten: Makes what it takes of rows of observations.
            previous: The parts of the last step behind observations, which the network gets apart; None for none.
        """
        self.network = TorchNetwork(NAME, network)
        self._outputs, self._unflatten, self._previous = outputs, unflatten, previous
        self._initial_state = initial_state_of(network)

    @property
    def learns_in(self) -> str:
        """Return `"torch"`."""
        return "torch"

    def parameters(self) -> Sequence[Parameter]:
        """Return the parameters of the network."""
        return self.network.parameters()

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of what the network remembers."""
        return {name: value.shape for name, value in self._initial_state.items()}

    def initial_state(self) -> Mapping[str, Array]:
        """Return what the network remembers when an episode begins."""
        return self._initial_state

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P] and `vf_preds` [N]; of one step, `state_out` if it remembers."""
        return self._run(nn, parameters, inputs, "_forward_train", with_values=True)

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P], and `state_out` if it remembers."""
        return self._run(nn, parameters, inputs, "_forward_exploration", with_values=False)

    def infer(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P], and `state_out` if it remembers."""
        return self._run(nn, parameters, inputs, "_forward_inference", with_values=False)

    def own_loss(self, nn: Ops, parameters: Parameters, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
        """Return the loss as `custom_loss` of the network changes it, and its metrics."""
        return _changed_loss(self.network.network, total, batch)

    def _run(self, nn: Ops, parameters: Parameters, inputs: Inputs, method: str, *, with_values: bool) -> Outputs:
        resets = inputs.get(columns.RESETS)
        if self._initial_state and resets is not None and resets.ndim == 2:
            return self._run_sequences(nn, parameters, inputs, method, with_values=with_values)
        rows = {columns.OBS: inputs[columns.OBS]}
        if self._initial_state:
            rows |= {f"{BEFORE}{name}": value for name, value in inputs[columns.STATE_IN].items()}
        found = self.network.run(nn, parameters, rows, self._forward(method, with_values=with_values))
        outputs = {name: value for name, value in found.items() if not name.startswith(AFTER)}
        if self._initial_state:
            outputs[columns.STATE_OUT] = {name: found[f"{AFTER}{name}"] for name in self._initial_state}
        return outputs

    def _run_sequences(
        self, nn: Ops, parameters: Parameters, inputs: Inputs, method: str, *, with_values: bool
    ) -> Outputs:
        """Return outputs as rows [T * N, ...] for observations [T, N, ...].

        The network is called with pieces of one episode each, and begins each with what it remembers there.
        """
        pieces = episode_pieces(np.asarray(nn.to_numpy(inputs[columns.RESETS]), bool))
        obs = np.asarray(nn.to_numpy(inputs[columns.OBS]))
        rows: dict[str, Any] = {columns.OBS: obs.reshape(-1, *obs.shape[2:])[pieces.rows.reshape(-1)]}
        for name, first in self._initial_state.items():
            before = np.asarray(nn.to_numpy(inputs[columns.STATE_IN][name]))[pieces.lanes]
            before[pieces.begins] = first
            rows[f"{BEFORE}{name}"] = before
        forward = self._forward(method, with_values=with_values, lengths=pieces.lengths)
        found = self.network.run(nn, parameters, rows, forward, apart=False)
        return {name: value[pieces.places] for name, value in found.items() if not name.startswith(AFTER)}

    def _forward(self, method: str, *, with_values: bool, lengths: Array | None = None) -> Forward:
        def forward(network: layers.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            rows = inputs[columns.OBS]
            before = {name: inputs[f"{BEFORE}{name}"] for name in self._initial_state}
            each = np.ones(len(rows), np.int64) if lengths is None else lengths
            steps = torch.from_numpy(each).to(rows.device) if before else None
            rows, previous = (rows, {}) if self._previous is None else self._previous.split(rows)
            call = NetworkCall(rows, self._unflatten(rows), before, steps, previous)
            answer = answer_of(network, call, method, with_values=with_values)
            return self._checked(network, answer, len(rows), len(each), with_values=with_values)

        return forward

    def _checked(
        self, network: layers.Module, answer: Answer, rows: int, sequences: int, *, with_values: bool
    ) -> dict[str, torch.Tensor]:
        """Return what a network answered by the names of columns. Raises ModuleError if shapes are others."""
        _check(network, "outputs", answer.outputs, (rows, self._outputs))
        found = {columns.ACTION_DIST_INPUTS: answer.outputs}
        if with_values:
            values = answer.values
            if values is None:
                raise ModuleError(no_values(network))
            values = values.squeeze(-1) if values.ndim == 2 and values.shape[-1] == 1 else values
            _check(network, "values", values, (rows,))
            found[columns.VF_PREDS] = values
        for name, value in answer.state.items():
            _check(network, f"the state {name!r}", value, (sequences, *self._initial_state[name].shape))
            found[f"{AFTER}{name}"] = value
        return found


class TorchQModule(QModule):
    """Wraps a user's network that gives a value for each action."""

    def __init__(self, network: layers.Module, actions: int, unflatten: Unflatten) -> None:
        """Take a network, the number of actions, and the maker of its inputs from rows; see `TorchPolicyModule`."""
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

        def forward(network: layers.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            rows = inputs[columns.OBS]
            call = NetworkCall(rows, self._unflatten(rows))
            values = answer_of(network, call, "_forward_train", with_values=False).outputs
            _check(network, "outputs", values, (len(rows), self._actions))
            return {columns.Q_VALUES: values}

        return self.network.run(nn, parameters, {columns.OBS: inputs[columns.OBS]}, forward)

    def own_loss(self, nn: Ops, parameters: Parameters, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
        """Return the loss as `custom_loss` of the network changes it, and its metrics."""
        return _changed_loss(self.network.network, total, batch)


def _changed_loss(network: Any, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
    if not isinstance(network, TorchModelV2):
        return total, {}
    changed = network.custom_loss(total, _as_rows(batch))
    changed = changed[0] if isinstance(changed, (list, tuple)) else changed
    return changed, {f"model/{name}": value for name, value in network.metrics().items()}


def _as_rows(batch: Inputs) -> Inputs:
    """Return a batch whose observations are rows like all other columns, where they are sequences."""
    if columns.RESETS not in batch:
        return batch
    obs = batch[columns.OBS]
    return {**batch, columns.OBS: obs.reshape(-1, *obs.shape[2:])}


def _check(network: Any, what: str, found: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(found, torch.Tensor) or tuple(found.shape) != shape:
        given = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise ModuleError(
            f"{type(network).__name__} returned {what} of shape {given} for {shape[0]} rows of observations, and "
            f"{list(shape)} was expected; the width of outputs is what it is told as num_outputs"
        )
