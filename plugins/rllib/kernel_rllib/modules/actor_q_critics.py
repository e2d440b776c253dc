"""The module of off-policy actor-critics: a policy, and critics that judge observations with actions.

DDPG has a policy that gives actions and one critic, TD3 two of them; SAC a policy that gives a distribution and two.
The critics of TQC give quantiles of returns. CQL learns how much its critics are held down. IQL
has a value of observations alone beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_rllib.data import columns
from kernel_rllib.modules.cnn import ConvolutionOptions, ImageEncoder, image_encoder
from kernel_rllib.modules.layers import Dense, Stack, stack
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

POLICY = "policy/"
CRITICS = "critic/"
TEMPERATURE = "temperature/"
PENALTY = "penalty/"
VALUE = "value/"
"""The prefixes of the names of parameters, one for each part that is learned by a loss of its own."""


@dataclass(frozen=True)
class HiddenLayers:
    """The hidden layers of one network.

    Attributes:
        widths: The widths of the first ones.
        activation: The name of their activation.
        more: The widths of those that follow.
        more_activation: The name of the activation of these.
    """

    widths: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    more: tuple[int, ...] = ()
    more_activation: str = "relu"


@dataclass(frozen=True)
class ActorQCriticsOptions:
    """The options of the networks.

    Attributes:
        policy: The policy's hidden layers.
        critic: Each critic's hidden layers.
        critics: The number of critics.
        initial_temperature: The initial weight of the entropy; None for no entropy term.
        convolutions: The options of the convolutions that each network begins with, where observations are images.
        quantiles: The number of quantiles of returns of each critic; None where it gives their mean.
        initial_penalty: The initial weight of the penalty on critics' values; None where none is learned.
        value: The hidden layers of a value of observations; None where there is none.
    """

    policy: HiddenLayers = HiddenLayers()
    critic: HiddenLayers = HiddenLayers()
    critics: int = 2
    initial_temperature: float | None = 1.0
    convolutions: ConvolutionOptions = field(default_factory=ConvolutionOptions)
    quantiles: int | None = None
    initial_penalty: float | None = None
    value: HiddenLayers | None = None


@dataclass(frozen=True)
class QNetwork:
    """A network of dense layers over observations, or over the features that convolutions make of images.

    Attributes:
        encoder: The convolutions; None where observations are rows.
        layers: The dense layers, the last of which gives the outputs.
    """

    encoder: ImageEncoder | None
    layers: Stack

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all layers."""
        return [*(self.encoder.parameters() if self.encoder else ()), *self.layers.parameters()]

    def __call__(self, nn: Ops, parameters: Parameters, obs: Any, actions: Any = None) -> Any:
        """Return the outputs [N, P] for observations, and for actions [N, D] where it takes them."""
        x = self.encoder(nn, parameters, obs) if self.encoder else obs
        x = nn.constant(x) if actions is None and not self.encoder else x
        return self.layers(nn, parameters, x if actions is None else nn.concat([x, actions], axis=-1))


class ActorQCritics(Module):
    """A policy and Q-critics. For discrete actions, critics give a value for each."""

    def __init__(
        self,
        observations: int | tuple[int, ...],
        distribution_inputs: int,
        *,
        action_inputs: int,
        critic_outputs: int = 1,
        options: ActorQCriticsOptions | None = None,
    ) -> None:
        """Build it.

        Args:
            observations: The width of a flat observation, or its shape; one of three axes is an image.
            distribution_inputs: The number of outputs of the policy.
            action_inputs: The width of actions as critics take them; 0 where they give a value for each action.
            critic_outputs: The number of values of a critic: 1, or the number of actions; quantiles take their place.
            options: The options by which it is built.
        """
        self.options = options = options or ActorQCriticsOptions()
        self._takes_actions = action_inputs > 0
        shape = (observations,) if isinstance(observations, int) else tuple(observations)
        images = options.convolutions if len(shape) == 3 else None
        outputs = critic_outputs if options.quantiles is None else options.quantiles
        self.policy = _network(f"{POLICY}body", shape, images, options.policy, distribution_inputs)
        self.critics = tuple(
            _network(f"{CRITICS}{index}", shape, images, options.critic, outputs, more_inputs=action_inputs)
            for index in range(options.critics)
        )
        self.value = None if options.value is None else _network(f"{VALUE}body", shape, images, options.value, 1)

    @property
    def learns_in(self) -> str | None:
        """Return `"torch"` where there are convolutions."""
        return "torch" if self.policy.encoder else None

    def parameters(self) -> Sequence[Parameter]:
        """Return the parameters of all networks, and the logarithms of temperature and penalty that are learned."""
        found = self.policy.parameters()
        for critic in self.critics:
            found += critic.parameters()
        if self.options.initial_temperature is not None:
            begins = initializers.constant(math.log(self.options.initial_temperature))
            found.append(Parameter(f"{TEMPERATURE}log", (1,), begins))
        if self.options.initial_penalty is not None:
            begins = initializers.constant(math.log(self.options.initial_penalty))
            found.append(Parameter(f"{PENALTY}log", (1,), begins))
        return [*found, *(self.value.parameters() if self.value else ())]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `action_dist_inputs` [N, P] of the policy; critics are asked by `q_values`."""
        return {columns.ACTION_DIST_INPUTS: self.policy(nn, parameters, inputs[columns.OBS])}

    def q_values(
        self, nn: Ops, parameters: Parameters, obs: Any, actions: Any = None, critics: int | None = None
    ) -> list[Any]:
        """Return what each critic gives: values [N] of observations with actions, or [N, A] of all actions.

        Critics with quantiles give those, [N, quantiles], of observations with actions.

        Args:
            nn: The operations.
            parameters: The module's, or those of its slower copy.
            obs: Observations [N, ...].
            actions: Actions as rows [N, action_inputs], where critics take them.
            critics: The number of critics that are asked, the first ones; None for all.
        """
        given = (obs, actions) if self._takes_actions else (obs,)
        asked = {f"{CRITICS}{index}": critic for index, critic in enumerate(self.critics[:critics])}
        values = nn.side_by_side(asked, parameters, *given)
        if not self._takes_actions or self.options.quantiles is not None:
            return list(values)
        return [nn.reshape(value, (value.shape[0],)) for value in values]

    def state_values(self, nn: Ops, parameters: Parameters, obs: Any) -> Any:
        """Return the values [N] of observations [N, ...], where `options.value` says how they are made."""
        assert self.value is not None
        found = self.value(nn, parameters, obs)
        return nn.reshape(found, (found.shape[0],))

    def log_temperature(self, parameters: Parameters) -> Any:
        """Return the logarithm of the temperature, [1]."""
        return parameters[f"{TEMPERATURE}log"]

    def log_penalty(self, parameters: Parameters) -> Any:
        """Return the logarithm of the weight of the penalty, [1]."""
        return parameters[f"{PENALTY}log"]


def least(nn: Ops, values: Sequence[Any]) -> Any:
    """Return for each row the lowest of what critics gave: of two it is too high less often than of one."""
    found = values[0]
    for others in values[1:]:
        found = nn.minimum(found, others)
    return found


def _network(
    name: str,
    shape: tuple[int, ...],
    images: ConvolutionOptions | None,
    hidden: HiddenLayers,
    outputs: int,
    *,
    more_inputs: int = 0,
) -> QNetwork:
    first = initializers.torch_linear()
    encoder = None if images is None else image_encoder(name, shape, images, initializers.orthogonal(2**0.5))
    inputs = (encoder.outputs if encoder else shape[0]) + more_inputs
    body = stack(name, inputs, hidden.widths, hidden.activation, first)
    more = stack(f"{name}/more", body.outputs, hidden.more, hidden.more_activation, first)
    head = Dense(f"{name}/head", more.outputs, outputs, None, first)
    return QNetwork(encoder, Stack((*body.layers, *more.layers, head), inputs))
