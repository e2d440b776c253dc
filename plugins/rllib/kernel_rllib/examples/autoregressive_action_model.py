"""A policy over two actions: a branch of the network gives the logits of the second one for each first one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.modules.contracts import PolicyModule
from kernel_rllib.modules.layers import Dense, stack
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops
from kernel_rllib.spaces.flatten import flat_size


class AutoregressiveActionModel(PolicyModule):
    """Puts out what `AutoregressiveCategorical` takes: logits of the first action, and of the second for each of it."""

    def __init__(
        self, obs_space: Any, action_space: Any, hiddens: Sequence[int] = (16,), branch: Sequence[int] = (16,)
    ) -> None:
        """Build it.

        Args:
            obs_space: The observation space.
            action_space: The action space: two Discrete spaces of two actions each.
            hiddens: The widths of the layers that see observations.
            branch: The width of the layer that sees the first action too.

        Raises:
            ValueError: If the action space is another.
        """
        if [getattr(part, "n", None) for part in getattr(action_space, "spaces", ())] != [2, 2]:
            raise ValueError("This model only supports the [2, 2] action space")
        gain = initializers.orthogonal(2**0.5)
        self.body = stack("body", flat_size(obs_space), hiddens, "tanh", gain)
        width = self.body.outputs
        self.first = Dense("first", width, 2, None, initializers.orthogonal(0.01))
        self.branch = stack("branch", width + 2, branch, "tanh", gain)
        self.second = Dense("second", self.branch.outputs, 2, None, initializers.orthogonal(0.01))
        self.value = Dense("value", width, 1, None, initializers.orthogonal(1.0))

    def parameters(self) -> Sequence[Parameter]:
        """Return all parameters."""
        layers = (self.body, self.first, self.branch, self.second, self.value)
        return [parameter for layer in layers for parameter in layer.parameters()]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return the logits [N, 2 + 2 * 2], and values."""
        features = self.body(nn, parameters, nn.constant(inputs[columns.OBS]))
        after = [self._second_after(nn, parameters, features, first) for first in range(2)]
        logits = nn.concat([self.first(nn, parameters, features), *after])
        value = self.value(nn, parameters, features)
        return {columns.ACTION_DIST_INPUTS: logits, columns.VF_PREDS: nn.reshape(value, (value.shape[0],))}

    def _second_after(self, nn: Ops, parameters: Parameters, features: Any, first: int) -> Any:
        """Return the logits [N, 2] of the second action where the first is this one."""
        chosen = np.zeros((features.shape[0], 2), np.float32)
        chosen[:, first] = 1
        given = nn.concat([features, nn.constant(chosen)])
        return self.second(nn, parameters, self.branch(nn, parameters, given))
