"""The networks of the usual models: layers, activations, recurrence, attention, what Atari frames pass.

One set of options under the names of `MODEL_DEFAULTS`, of 0.8.5 and of 2.x, and of today's `DefaultModelConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.name_table import Conversion, Name
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings import Origin
from kernel_rllib.config.settings_dict import DictSettings
from kernel_rllib.nearest import did_you_mean

ACTIVATIONS = ("tanh", "relu", "sigmoid", "silu", "swish", "elu", "gelu", "leaky_relu", "softplus", "linear")

Activation = str | Callable[..., Any] | None
Initializer = str | Callable[..., Any] | None
Arguments = dict[str, Any] | None
ConvFilters = list[Any] | None


def _activation(value: Any) -> Any:
    return value.lower().replace("leakyrelu", "leaky_relu") if isinstance(value, str) else value


def _activation_problem(value: Any) -> str | None:
    if not isinstance(value, str) or value in ACTIVATIONS:
        return None
    return f"there are {', '.join(ACTIVATIONS)}, and None for none{did_you_mean(value, ACTIVATIONS)}"


def _filters_problem(value: Any) -> str | None:
    for layer in value or ():
        if isinstance(layer, (list, tuple)) and len(layer) not in (3, 4):
            return f"a layer is [channels, kernel, stride], with the padding as a fourth, not {layer!r}"
    return None


def _activations(default: str, doc: str) -> Field[Activation]:
    return Field[Activation](default, doc, convert=_activation, check=_activation_problem)


def _layers(default: list[int], doc: str, **more: Any) -> Field[list[int]]:
    return Field[list[int]](default, doc, range=(1, None), **more)


def _initializer(layers: str, **more: Any) -> Field[Initializer]:
    return Field[Initializer](None, f"How weights of {layers} begin; None as the library does.", since="2.x", **more)


def _arguments(layers: str) -> Field[Arguments]:
    return Field[Arguments](None, f"Arguments of the initializer of {layers}.", since="2.x")


def _read_previous(given: Mapping[str, Any], everything: Mapping[str, Any]) -> dict[str, Any]:
    both = given.get("lstm_use_prev_action_reward")
    return {} if both is None else {"lstm_use_prev_action": both, "lstm_use_prev_reward": both}


class ModelConfig(DictSettings):
    """The networks of the usual models. Options that aren't known are kept for models of the user's own."""

    fcnet_hiddens = _layers([256, 256], "Sizes of the dense layers of the encoder.")
    fcnet_activation = _activations("tanh", "What follows each of them.")
    fcnet_kernel_initializer = _initializer("them")
    fcnet_kernel_initializer_kwargs = _arguments("them")
    fcnet_bias_initializer = _initializer("their biases")
    fcnet_bias_initializer_kwargs = _arguments("their biases")
    fcnet_use_layernorm = Field(False, "Whether each of them is normalised.", since="current")
    conv_filters = Field[ConvFilters](
        None,
        "Convolutions before them, each [channels, kernel, stride]; None: by the size of images.",
        check=_filters_problem,
    )
    conv_activation = _activations("relu", "What follows each convolution.")
    conv_kernel_initializer = _initializer("convolutions")
    conv_kernel_initializer_kwargs = _arguments("convolutions")
    conv_bias_initializer = _initializer("their biases")
    conv_bias_initializer_kwargs = _arguments("their biases")
    head_fcnet_hiddens = _layers([], "Sizes of the dense layers between the encoder and the outputs.", since="1.x")
    head_fcnet_activation = Field[Activation](
        "relu", "What follows each of them.", convert=_activation, check=_activation_problem, since="1.x"
    )
    head_fcnet_kernel_initializer = _initializer("them")
    head_fcnet_kernel_initializer_kwargs = _arguments("them")
    head_fcnet_bias_initializer = _initializer("their biases")
    head_fcnet_bias_initializer_kwargs = _arguments("their biases")
    head_fcnet_use_layernorm = Field(False, "Whether each of them is normalised.", since="current")
    fusionnet_hiddens = _layers(
        [256, 256], "Sizes of the dense layers that join the encodings of several inputs.", since="current"
    )
    fusionnet_activation = Field[Activation](
        "tanh", "What follows each of them.", convert=_activation, check=_activation_problem, since="current"
    )
    free_log_std = Field(False, "Whether the deviation of continuous actions is a parameter, not an output.")
    log_std_clip_param = Field[float](20.0, "Where its logarithm is clipped.", above=0, since="current")
    no_final_linear = Field(False, "Whether the last hidden layer is the output, and has its size.")
    vf_share_layers = Field(True, "Whether the value function shares the policy's encoder.")
    use_lstm = Field(False, "Whether an LSTM follows the encoder.")
    max_seq_len = Field(20, "How far gradients reach back through time.", range=(1, None), unit="env steps")
    lstm_cell_size = Field(256, "The size of its state.", range=(1, None))
    lstm_use_prev_action = Field(False, "Whether it also sees the action before.", since="1.x")
    lstm_use_prev_reward = Field(False, "Whether it also sees the reward before.", since="1.x")
    lstm_kernel_initializer = _initializer("the LSTM")
    lstm_kernel_initializer_kwargs = _arguments("the LSTM")
    lstm_bias_initializer = _initializer("its biases")
    lstm_bias_initializer_kwargs = _arguments("its biases")
    _time_major = Field(False, "Whether recurrent models get [T, B] rather than [B, T].", since="1.x")
    state_shape = Field[list[int] | None](
        None,
        "The shape of states of models of the first form.",
        until="0.8.5",
        inert="a model says it by its initial state",
    )
    use_attention = Field(False, "Whether a transformer follows the encoder.", since="1.x")
    attention_num_transformer_units = Field(1, "How many of its blocks.", range=(1, None), since="1.x")
    attention_dim = Field(64, "The width of its blocks.", range=(1, None), since="1.x")
    attention_num_heads = Field(1, "How many heads each has.", range=(1, None), since="1.x")
    attention_head_dim = Field(32, "The width of a head.", range=(1, None), since="1.x")
    attention_memory_inference = Field(50, "Steps that it sees when acting.", range=(0, None), since="1.x")
    attention_memory_training = Field(50, "Steps that it sees when learning.", range=(0, None), since="1.x")
    attention_position_wise_mlp_dim = Field(32, "The width of its dense layers.", range=(1, None), since="1.x")
    attention_init_gru_gate_bias = Field(2.0, "The first bias of its gates.", since="1.x")
    attention_use_n_prev_actions = Field(0, "How many actions before it also sees.", range=(0, None), since="1.x")
    attention_use_n_prev_rewards = Field(0, "How many rewards before it also sees.", range=(0, None), since="1.x")
    framestack = Field(True, "Whether four frames of Atari games are one observation.")
    dim = Field(84, "Width and height of Atari frames.", range=(1, None), unit="pixels")
    grayscale = Field(False, "Whether frames are turned to shades of gray.")
    zero_mean = Field(True, "Whether pixels range from -1 to 1.")
    custom_model = Field[Any](None, "A model of the user's own: its registered name, its dotted path or its class.")
    custom_model_config = Field[dict[str, Any]]({}, "What that model reads.", merge=True)
    custom_action_dist = Field[Any](
        None, "A distribution of actions of the user's own: its registered name or its class."
    )
    custom_preprocessor = Field[Any](None, "A preprocessor of the user's own: its registered name.")
    encoder_latent_dim = Field[int | None](None, "The size of the encoding; None: of the last layer.", since="2.x")
    always_check_shapes = Field(False, "Whether shapes are checked at each pass.", since="2.x")
    _disable_preprocessor_api = Field(False, "Whether observations reach the model as they are.", since="1.x")
    _disable_action_flattening = Field(False, "Whether nested actions stay nested.", since="1.x")

    rows = (
        Name("custom_model_config", "custom_options", "custom_model_config"),
        Name("head_fcnet_hiddens", "post_fcnet_hiddens"),
        Name("head_fcnet_activation", "post_fcnet_activation"),
        *(
            Name(f"{part}_{what}_initializer{now}", f"{then}_{was}_initializer{old}")
            for part, then in (("fcnet", "fcnet"), ("head_fcnet", "post_fcnet"), ("lstm", "lstm"), ("conv", "conv"))
            for what, was in (("kernel", "kernel" if part == "conv" else "weights"), ("bias", "bias"))
            for now, old in (("", ""), ("_kwargs", "_config"))
        ),
        Conversion(
            ("lstm_use_prev_action_reward",),
            _read_previous,
            write=lambda model: {"lstm_use_prev_action_reward": bool(model.lstm_use_prev_action)},
            covers=("lstm_use_prev_action", "lstm_use_prev_reward"),
            complete=lambda model: bool(model.lstm_use_prev_action == model.lstm_use_prev_reward),
            generations=("0.8.5",),
        ),
    )


class DefaultModelConfig(ModelConfig):
    """The networks of the usual models, as today's API spells them: `DefaultModelConfig(fcnet_hiddens=[64, 64])`."""

    def __init__(
        self,
        *,
        fcnet_hiddens: list[int] = NOT_PROVIDED,
        fcnet_activation: Activation = NOT_PROVIDED,
        fcnet_kernel_initializer: Initializer = NOT_PROVIDED,
        fcnet_kernel_initializer_kwargs: Arguments = NOT_PROVIDED,
        fcnet_bias_initializer: Initializer = NOT_PROVIDED,
        fcnet_bias_initializer_kwargs: Arguments = NOT_PROVIDED,
        fcnet_use_layernorm: bool = NOT_PROVIDED,
        conv_filters: ConvFilters = NOT_PROVIDED,
        conv_activation: Activation = NOT_PROVIDED,
        conv_kernel_initializer: Initializer = NOT_PROVIDED,
        conv_kernel_initializer_kwargs: Arguments = NOT_PROVIDED,
        conv_bias_initializer: Initializer = NOT_PROVIDED,
        conv_bias_initializer_kwargs: Arguments = NOT_PROVIDED,
        head_fcnet_hiddens: list[int] = NOT_PROVIDED,
        head_fcnet_activation: Activation = NOT_PROVIDED,
        head_fcnet_kernel_initializer: Initializer = NOT_PROVIDED,
        head_fcnet_kernel_initializer_kwargs: Arguments = NOT_PROVIDED,
        head_fcnet_bias_initializer: Initializer = NOT_PROVIDED,
        head_fcnet_bias_initializer_kwargs: Arguments = NOT_PROVIDED,
        head_fcnet_use_layernorm: bool = NOT_PROVIDED,
        fusionnet_hiddens: list[int] = NOT_PROVIDED,
        fusionnet_activation: Activation = NOT_PROVIDED,
        free_log_std: bool = NOT_PROVIDED,
        log_std_clip_param: float = NOT_PROVIDED,
        vf_share_layers: bool = NOT_PROVIDED,
        use_lstm: bool = NOT_PROVIDED,
        max_seq_len: int = NOT_PROVIDED,
        lstm_cell_size: int = NOT_PROVIDED,
        lstm_use_prev_action: bool = NOT_PROVIDED,
        lstm_use_prev_reward: bool = NOT_PROVIDED,
        lstm_kernel_initializer: Initializer = NOT_PROVIDED,
        lstm_kernel_initializer_kwargs: Arguments = NOT_PROVIDED,
        lstm_bias_initializer: Initializer = NOT_PROVIDED,
        lstm_bias_initializer_kwargs: Arguments = NOT_PROVIDED,
    ) -> None:
        """Set the given options, leave the others at their defaults. Raises `ConfigError` for a value that can't be."""
        given = {name: value for name, value in locals().items() if name in type(self).fields}
        super().__init__()
        self._change(
            {name: value for name, value in given.items() if value is not NOT_PROVIDED}, Origin("DefaultModelConfig()")
        )
