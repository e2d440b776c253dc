"""Models of actions that are told by vectors: one is worth the inner product of its vector and what is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.modules.contracts import PolicyModule, QModule
from kernel_rllib.modules.layers import Dense, stack
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

MASKED = -1e9
"""The logit of an action that may not be taken: its probability is 0, and all numbers are finite."""


class _ParametricActions(Module):
    """The base of both models: observations are the mask of actions, then their vectors, and then all other columns."""

    def __init__(self, num_outputs: int, seen: int, embedding: int = 2, hiddens: Sequence[int] = (64, 64)) -> None:
        """Build it.

        Args:
            num_outputs: The largest number of actions.
            seen: The width of the rest of an observation.
            embedding: The width of the vector of an action.
            hiddens: The widths of the hidden layers.
        """
        self.actions, self.embedding = num_outputs, embedding
        gain = initializers.orthogonal(2**0.5)
        self.body = stack("body", seen, hiddens, "tanh", gain)
        self.intent = Dense("intent", hiddens[-1], embedding, None, initializers.orthogonal(0.1))

    def parameters(self) -> Sequence[Parameter]:
        """Return all parameters."""
        return [*self.body.parameters(), *self.intent.parameters()]

    def split(self, nn: Ops, inputs: Inputs) -> tuple[Any, Any, Any]:
        """Return the mask [N, A], the vectors [N, A, E], and what else is seen [N, F]."""
        obs = np.asarray(nn.to_numpy(inputs[columns.OBS]))
        end = self.actions * (1 + self.embedding)
        vectors = obs[:, self.actions : end].reshape(-1, self.actions, self.embedding)
        return obs[:, : self.actions] > 0.5, nn.constant(vectors), nn.constant(np.ascontiguousarray(obs[:, end:]))

    def scores(self, nn: Ops, parameters: Parameters, inputs: Inputs, masked: float) -> tuple[Any, Any]:
        """Return what actions are worth [N, A], `masked` where they may not be taken, and the hidden features."""
        mask, vectors, seen = self.split(nn, inputs)
        features = self.body(nn, parameters, seen)
        intent = self.intent(nn, parameters, features)
        scores = nn.sum(vectors * nn.expand_dims(intent, 1), axis=2)
        return nn.where(mask, scores, nn.constant(np.full(mask.shape, masked, np.float32))), features


class ParametricActionsModel(_ParametricActions, PolicyModule):
    """A policy over such actions, with values."""

    def __init__(self, num_outputs: int, seen: int, embedding: int = 2, hiddens: Sequence[int] = (64, 64)) -> None:
        """Build it; see the class that both derive from."""
        super().__init__(num_outputs, seen, embedding, hiddens)
        self.value = Dense("value", hiddens[-1], 1, None, initializers.orthogonal(1.0))

    def parameters(self) -> Sequence[Parameter]:
        """Return all parameters."""
        return [*super().parameters(), *self.value.parameters()]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return the logits of actions, and values."""
        logits, features = self.scores(nn, parameters, inputs, MASKED)
        value = self.value(nn, parameters, features)
        return {columns.ACTION_DIST_INPUTS: logits, columns.VF_PREDS: nn.reshape(value, (value.shape[0],))}


class ParametricActionsQModel(_ParametricActions, QModule):
    """Values of such actions; -inf where one may not be taken, as explorations by values expect."""

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return the values of actions."""
        return {columns.Q_VALUES: self.scores(nn, parameters, inputs, -np.inf)[0]}
