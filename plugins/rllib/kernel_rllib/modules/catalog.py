"""From the options of a config to the options of modules."""

from __future__ import annotations

from typing import Any

from kernel_rllib.modules.actor_critic import ActorCriticOptions
from kernel_rllib.modules.actor_q_critics import HiddenLayers
from kernel_rllib.modules.attention import AttentionOptions
from kernel_rllib.modules.cnn import ConvolutionOptions


def activation_name(activation: Any) -> str:
    """Return the name of an activation: of one that is named, of a class or function of torch or Keras, or of none."""
    if activation is None:
        return "linear"
    name = activation if isinstance(activation, str) else getattr(activation, "__name__", type(activation).__name__)
    return name.lower()


def actor_critic_options(model: Any) -> ActorCriticOptions:
    """Return how an actor-critic is built by the options `model` of a config."""
    return ActorCriticOptions(
        hidden=tuple(model.fcnet_hiddens),
        activation=activation_name(model.fcnet_activation),
        more=tuple(model.head_fcnet_hiddens),
        more_activation=activation_name(model.head_fcnet_activation),
        convolutions=convolution_options(model),
        share_layers=bool(model.vf_share_layers),
        lstm_cells=model.lstm_cell_size if model.use_lstm else None,
        attention=attention_options(model) if model.use_attention else None,
    )


def attention_options(model: Any) -> AttentionOptions:
    """Return how a transformer is built by the options `model` of a config."""
    return AttentionOptions(
        units=model.attention_num_transformer_units,
        width=model.attention_dim,
        heads=model.attention_num_heads,
        head_width=model.attention_head_dim,
        memory=model.attention_memory_inference,
        memory_learning=model.attention_memory_training,
        dense=model.attention_position_wise_mlp_dim,
        gate_bias=float(model.attention_init_gru_gate_bias),
    )


def convolution_options(model: Any) -> ConvolutionOptions:
    """Return how convolutions are built by the options `model` of a config."""
    return ConvolutionOptions(
        filters=model.conv_filters or None,
        activation=activation_name(model.conv_activation),
        zero_mean=bool(model.zero_mean),
    )


def hidden_layers(network: Any, model: Any) -> HiddenLayers:
    """Return the hidden layers that a config describes.

    Args:
        network: The options of this network alone.
        model: The options of all networks; each one that is set counts where `network` does not set it.
    """

    def chosen(option: str) -> Any:
        return getattr(model if model.is_set(option) and not network.is_set(option) else network, option)

    return HiddenLayers(
        widths=tuple(chosen("fcnet_hiddens")),
        activation=activation_name(chosen("fcnet_activation")),
        more=tuple(chosen("head_fcnet_hiddens")),
        more_activation=activation_name(chosen("head_fcnet_activation")),
    )
