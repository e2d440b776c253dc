"""The module of policy-gradient algorithms: a policy's distribution, and the value of what is observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_rllib.data import columns
from kernel_rllib.modules.attention import AttentionOptions, Transformer
from kernel_rllib.modules.cnn import ConvolutionOptions, ImageEncoder, image_encoder
from kernel_rllib.modules.contracts import PolicyModule
from kernel_rllib.modules.layers import Body, Dense, Memory, mixed_stack
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.modules.recurrent import LSTM
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

POLICY_HEAD_GAIN = 0.01
"""A policy that begins nearly uniform explores all actions (Andrychowicz et al., 2020, section 3.2)."""


@dataclass(frozen=True)
class ActorCriticOptions:
    """The options of an actor-critic.

    Attributes:
        hidden: The widths of its hidden layers.
        activation: The name of their activation.
        more: The widths of those that follow; after convolutions there are these alone.
        more_activation: The name of the activation of these.
        convolutions: The options of the convolutions, where observations are images.
        share_layers: Whether policy and value use the same hidden layers.
        lstm_cells: The width of a long short-term memory after the hidden layers, or None. It is shared by both.
        attention: The options of a transformer in its place, or None.
    """

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    more: tuple[int, ...] = ()
    more_activation: str = "relu"
    convolutions: ConvolutionOptions = field(default_factory=ConvolutionOptions)
    share_layers: bool = False
    lstm_cells: int | None = None
    attention: AttentionOptions | None = None


class ActorCritic(PolicyModule):
    """An actor-critic network: two heads over hidden layers, for an action distribution's inputs and for a value."""

    def __init__(
        self,
        observations: int | Sequence[int],
        distribution_inputs: int,
        *,
        free_inputs: int = 0,
        options: ActorCriticOptions | None = None,
    ) -> None:
        """Build it.

        Args:
            observations: The width of a flat observation, or its shape; one of three axes is an image.
            distribution_inputs: The number of parameters of the action distribution.
            free_inputs: The number of these, the last ones, that do not depend on observations.
            options: The options by which it is built.
        """
        self.options = options = options or ActorCriticOptions()
        shape = (observations,) if isinstance(observations, int) else tuple(observations)
        shared = options.share_layers or options.lstm_cells is not None or options.attention is not None
        name = "shared" if shared else "policy"
        self.body = hidden_body(name, shape, options)
        self.memory = _memory(self.body.outputs, options)
        features = self.memory.outputs if self.memory else self.body.outputs
        self.value_body: Body | None = None if shared else hidden_body("value", shape, options)
        given = distribution_inputs - free_inputs
        self.policy_head = Dense("policy/head", features, given, None, initializers.orthogonal(POLICY_HEAD_GAIN))
        self.value_head = Dense("value/head", features, 1, None, initializers.orthogonal(1.0))
        self.free = Parameter("policy/free", (free_inputs,), initializers.zeros()) if free_inputs else None

    def parameters(self) -> Sequence[Parameter]:
        """Return all its parameters: those of the policy, then those of the value."""
        found = self.body.parameters()
        if self.memory:
            found += self.memory.parameters()
        found += self.policy_head.parameters()
        if self.free:
            found.append(self.free)
        if self.value_body:
            found += self.value_body.parameters()
        return [*found, *self.value_head.parameters()]

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return the state of its memory, if it has one."""
        return self.memory.state() if self.memory else {}

    @property
    def learns_in(self) -> str | None:
        """Return `"torch"` where there are convolutions."""
        return "torch" if isinstance(self.body, ImageEncoder) else None

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P], `vf_preds` [N], and `state_out` if it remembers."""
        if self.value_body and not self.memory:
            networks = {"policy": self._policy, "value": self._value}
            given, value = nn.side_by_side(networks, parameters, nn.constant(inputs[columns.OBS]))
            return {columns.ACTION_DIST_INPUTS: given, columns.VF_PREDS: value}
        features, outputs = self._features(nn, parameters, inputs)
        outputs[columns.ACTION_DIST_INPUTS] = self._distribution_inputs(nn, parameters, features)
        outputs[columns.VF_PREDS] = self._value(nn, parameters, features)
        return outputs

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P], and `state_out` if it remembers. Values are asked for by `values`."""
        features, outputs = self._features(nn, parameters, inputs)
        outputs[columns.ACTION_DIST_INPUTS] = self._distribution_inputs(nn, parameters, features)
        return outputs

    def values(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Any:
        """Return the values [N] of observations, without the policy where it has layers of its own."""
        x = nn.constant(inputs[columns.OBS]) if self.value_body else self._features(nn, parameters, inputs)[0]
        return self._value(nn, parameters, x)

    def _features(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> tuple[Any, Outputs]:
        features = self.body(nn, parameters, nn.constant(inputs[columns.OBS]))
        if self.memory is None:
            return features, {}
        features, state = self.memory(nn, parameters, features, inputs)
        return features, {columns.STATE_OUT: state}

    def _distribution_inputs(self, nn: Ops, parameters: Parameters, features: Any) -> Any:
        given = self.policy_head(nn, parameters, features)
        if self.free is None:
            return given
        free = nn.broadcast_to(parameters[self.free.name], (given.shape[0], *self.free.shape))
        return nn.concat([given, free], axis=-1)

    def _policy(self, nn: Ops, parameters: Parameters, obs: Any) -> Any:
        return self._distribution_inputs(nn, parameters, self.body(nn, parameters, obs))

    def _value(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return values [N] for observations, where the value has layers of its own, or for features."""
        value = self.value_head(nn, parameters, self.value_body(nn, parameters, x) if self.value_body else x)
        return nn.reshape(value, (value.shape[0],))


def _memory(inputs: int, options: ActorCriticOptions) -> Memory | None:
    if options.attention is not None:
        return Transformer("memory", inputs, options.attention)
    return LSTM("memory", inputs, options.lstm_cells) if options.lstm_cells else None


def hidden_body(name: str, shape: tuple[int, ...], options: ActorCriticOptions) -> Body:
    """Return the hidden layers that options describe: dense ones, or convolutions where observations are images.

    Args:
        name: The prefix of the names of parameters.
        shape: The shape of one observation.
        options: The options by which they are built.
    """
    gain = initializers.orthogonal(2**0.5)
    if len(shape) == 3:
        images = options.convolutions
        return image_encoder(name, shape, images, gain, widths=options.more, activation=options.more_activation)
    layers = [(width, options.activation) for width in options.hidden]
    return mixed_stack(name, shape[0], [*layers, *((width, options.more_activation) for width in options.more)], gain)
