"""Models of the first generation, in torch: the classes that users derive their own from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn as layers


class TorchModelV2:
    """A model of the first generation: derive from it and from `torch.nn.Module`, and call the constructors of both.

    Attributes:
        obs_space: The space of observations; one that was flattened has the environment's as `original_space`.
        action_space: The space of actions.
        num_outputs: The number of outputs of `forward` for each row.
        model_config: The options `model` of the config, as a dict.
        name: The name of the model.
    """

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int | None, model_config: Mapping[str, Any], name: str
    ) -> None:
        """Keep what the model is told; see the attributes."""
        self.obs_space, self.action_space = obs_space, action_space
        self.num_outputs, self.model_config, self.name = num_outputs, dict(model_config), name

    def forward(self, input_dict: Mapping[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """Return outputs [N, num_outputs] and the state afterwards.

        Args:
            input_dict: `obs` in the shape of the environment's space, `obs_flat` [N, ...] and `is_training`; with
                `lstm_use_prev_action` and `lstm_use_prev_reward`, `prev_actions` and `prev_rewards` [N], which are 0
                where an episode begins.
            state: The state, tensors [B, ...] like those of `get_initial_state`; empty if it has none.
            seq_lens: The lengths of the B sequences, of which the rows are, one after another; the longest one has
                N / B steps, and others are filled up. None if nothing is remembered.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward(input_dict, state, seq_lens): define it")

    def value_function(self) -> Any:
        """Return the values [N] of the observations of the last forward pass."""
        raise NotImplementedError(f"{type(self).__name__} has no value_function(): define it")

    def custom_loss(self, policy_loss: Any, loss_inputs: Mapping[str, Any]) -> Any:
        """Return the loss to make small: by default the policy's as it is.

        Args:
            policy_loss: The loss of the algorithm, one number.
            loss_inputs: The columns that it was computed from, as arrays.
        """
        return policy_loss

    def metrics(self) -> dict[str, Any]:
        """Return what is reported of the last pass, numbers by name."""
        return {}

    def get_initial_state(self) -> Sequence[Any]:
        """Return what is remembered when an episode begins, arrays or tensors of one sequence; by default nothing."""
        return []

    def variables(self, as_dict: bool = False) -> Any:
        """Return all parameters, by name if `as_dict`."""
        found = dict(self.named_parameters())  # type: ignore[attr-defined]
        return found if as_dict else list(found.values())

    trainable_variables = variables


class RecurrentNetwork(TorchModelV2):
    """A model that remembers, called with sequences: define `get_initial_state`, `forward_rnn` and `value_function`.

    Derive from it and from `torch.nn.Module`, and call the constructors of both.
    """

    def forward(self, input_dict: Mapping[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """Return outputs [N, num_outputs] of rows, and the state afterwards, by `forward_rnn`."""
        inputs = add_time_dimension(input_dict["obs_flat"].float(), seq_lens)
        outputs, after = self.forward_rnn(inputs, state, seq_lens)
        return outputs.reshape(-1, outputs.shape[-1]), after

    def forward_rnn(self, inputs: Any, state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """Return outputs [B, T, num_outputs] and the state after the sequences, [B, ...] each.

        Args:
            inputs: Flat observations [B, T, width].
            state: The state before the sequences, tensors [B, ...].
            seq_lens: The length of each sequence, in steps [B]; shorter ones than T are filled up at their ends.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward_rnn(inputs, state, seq_lens): define it")


class RecurrentTorchModel(RecurrentNetwork, layers.Module):  # type: ignore[misc]  # Any where torch is not installed
    """A `RecurrentNetwork` that is a `torch.nn.Module` already: its constructor calls those of both."""

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Mapping[str, Any], name: str
    ) -> None:
        """Keep what the model is told; see `TorchModelV2`."""
        layers.Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)


def add_time_dimension(padded_inputs: Any, seq_lens: Any, **further: Any) -> Any:
    """Return rows [B * T, ...] of B sequences, one after another, as [B, T, ...].

    Args:
        padded_inputs: The rows; shorter sequences are filled up.
        seq_lens: The length of each sequence, in rows [B].
        further: Accepted, as older programs name a framework.
    """
    return padded_inputs.reshape(len(seq_lens), -1, *padded_inputs.shape[1:])


class FullyConnectedNetwork(TorchModelV2, layers.Module):  # type: ignore[misc]  # Any where torch is not installed
    """Dense layers of `fcnet_hiddens`, and others of the same widths for values unless `vf_share_layers`."""

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Mapping[str, Any], name: str
    ) -> None:
        """Build the layers."""
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        layers.Module.__init__(self)
        width = int(torch.Size(obs_space.shape).numel())
        hidden = list(self.model_config.get("fcnet_hiddens", [256, 256]))
        self._body, self._value_body = _dense(width, hidden), _dense(width, hidden)
        if self.model_config.get("vf_share_layers"):
            self._value_body = self._body
        last = hidden[-1] if hidden else width
        self._outputs, self._value = layers.Linear(last, num_outputs), layers.Linear(last, 1)
        self._flat: Any = None

    def forward(self, input_dict: Mapping[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """Return outputs of flat observations."""
        self._flat = input_dict["obs_flat"]
        return self._outputs(self._body(self._flat)), state

    def value_function(self) -> Any:
        """Return the values of the same observations."""
        return self._value(self._value_body(self._flat)).squeeze(-1)


def _dense(width: int, hidden: Sequence[int]) -> layers.Module:
    parts: list[layers.Module] = []
    for size in hidden:
        parts += [layers.Linear(width, size), layers.Tanh()]
        width = size
    return layers.Sequential(*parts)
