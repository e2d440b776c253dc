"""Parts of a config that are settings themselves: the model, the networks of SAC, the replay buffer."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.config import DefaultModelConfig, ModelConfig, ReplayBufferConfig
from kernel_rllib.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")

MODEL_OF_0_8_5 = {
    "conv_filters": None,
    "conv_activation": "relu",
    "fcnet_activation": "tanh",
    "fcnet_hiddens": [256, 256],
    "free_log_std": False,
    "no_final_linear": False,
    "vf_share_layers": True,
    "use_lstm": False,
    "max_seq_len": 20,
    "lstm_cell_size": 256,
    "lstm_use_prev_action_reward": False,
    "state_shape": None,
    "framestack": True,
    "dim": 84,
    "grayscale": False,
    "zero_mean": True,
    "custom_model": None,
    "custom_action_dist": None,
    "custom_options": {},
    "custom_preprocessor": None,
}

MODEL_OF_2_X = {
    "_disable_preprocessor_api": False,
    "_disable_action_flattening": False,
    "fcnet_hiddens": [256, 256],
    "fcnet_activation": "tanh",
    "conv_filters": None,
    "conv_activation": "relu",
    "post_fcnet_hiddens": [],
    "post_fcnet_activation": "relu",
    "free_log_std": False,
    "no_final_linear": False,
    "vf_share_layers": True,
    "use_lstm": False,
    "max_seq_len": 20,
    "lstm_cell_size": 256,
    "lstm_use_prev_action": False,
    "lstm_use_prev_reward": False,
    "_time_major": False,
    "use_attention": False,
    "attention_num_transformer_units": 1,
    "attention_dim": 64,
    "attention_num_heads": 1,
    "attention_head_dim": 32,
    "attention_memory_inference": 50,
    "attention_memory_training": 50,
    "attention_position_wise_mlp_dim": 32,
    "attention_init_gru_gate_bias": 2.0,
    "attention_use_n_prev_actions": 0,
    "attention_use_n_prev_rewards": 0,
    "framestack": True,
    "dim": 84,
    "grayscale": False,
    "zero_mean": True,
    "custom_model": None,
    "custom_model_config": {},
    "custom_action_dist": None,
    "custom_preprocessor": None,
}


def test_the_options_of_models_of_each_generation() -> None:
    assert ModelConfig.default_dict("0.8.5") == MODEL_OF_0_8_5
    newer = ModelConfig.default_dict("1.x")
    assert newer == MODEL_OF_2_X
    assert MODEL_OF_2_X.items() <= ModelConfig.default_dict("2.x").items()
    today = ModelConfig.default_dict()
    assert (
        today["head_fcnet_hiddens"] == []
        and today["fusionnet_activation"] == "tanh"
        and "post_fcnet_hiddens" not in today
    )


def test_a_model_is_set_by_training_and_by_rl_module_alike() -> None:
    given = {"fcnet_hiddens": [8], "fcnet_activation": "relu"}
    by_training = PPOConfig().training(model=given)
    for other in (
        PPOConfig().rl_module(model_config=given),
        PPOConfig().rl_module(model_config_dict=given),
        PPOConfig().rl_module(model_config=DefaultModelConfig(**given)),
        PPOConfig().training(model=ModelConfig() | given),
        PPOConfig().update_from_dict({"model": given}),
    ):
        assert other == by_training and type(other.model) is ModelConfig
    assert by_training.model_config is by_training.model
    assert by_training.is_set("model") and not PPOConfig().training(model={}).is_set("model")
    assert by_training.model.vf_share_layers is False and DQNConfig().model.vf_share_layers is True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fcnet_activation": "relux"}, "PPOConfig.model: fcnet_activation is 'relux': there are tanh, relu, sigmoid,"),
        ({"fcnet_activation": "relux"}, "and None for none; did you mean 'relu'?"),
        (
            {"fcnet_hiddens": [0]},
            "PPOConfig.model: fcnet_hiddens is [0], but must be a list of whole numbers from 1 on",
        ),
        (
            {"conv_filters": [[16, 4]]},
            "a layer is [channels, kernel, stride], with the padding as a fourth, not [16, 4]",
        ),
        ({"max_seq_len": 0}, "max_seq_len is 0, but must be a whole number from 1 on (env steps)"),
        ({"use_lstm": 1}, "use_lstm is 1, but must be True or False"),
    ],
)
def test_options_of_models_are_checked(given: dict[str, Any], said: str) -> None:
    for way in (
        PPOConfig().training,
        lambda model: PPOConfig().rl_module(model_config=model),
        PPOConfig().model.update,
    ):
        with pytest.raises(ConfigError) as raised:
            way(**{"model": given}) if way.__name__ == "training" else way(given)
        assert said in str(raised.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"fcnet_activation": "ReLU"}, "relu"),
        ({"fcnet_activation": None}, None),
        ({"fcnet_activation": "LeakyReLU"}, "leaky_relu"),
        ({"fcnet_activation": len}, len),
    ],
)
def test_activations_are_known_by_the_names_of_libraries(given: dict[str, Any], kept: Any) -> None:
    assert PPOConfig().training(model=given).model.fcnet_activation == kept


def test_options_of_ones_own_models_are_kept() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = PPOConfig().rl_module(model_config={"hidden_size_of_mine": 8})
    assert config.model["hidden_size_of_mine"] == config.model.hidden_size_of_mine == 8
    assert config.to_dict()["model"]["hidden_size_of_mine"] == 8
    with pytest.warns(
        UserWarning,
        match=r"PPOConfig.model has no setting 'fcnet_hidens', which is kept as yours; there is 'fcnet_hiddens'",
    ):
        PPOConfig().training(model={"fcnet_hidens": [8]})


def test_parts_are_changed_in_place() -> None:
    config = PPOConfig()
    config.model["fcnet_hiddens"] = [8]
    config.model["custom_options"] = {"a": 1}
    config.model.fcnet_hiddens.append(4)
    assert config.to_dict()["model"]["fcnet_hiddens"] == [8, 4] and config.model.custom_model_config == {"a": 1}
    assert config != PPOConfig() and config.explain()["model.fcnet_hiddens"].set_by == "item"
    assert PPOConfig().model.fcnet_hiddens == [256, 256]


def test_networks_have_their_own_few_options() -> None:
    config = SACConfig().training(
        q_model_config={"fcnet_hiddens": [8]}, policy_model_config={"fcnet_activation": "tanh"}
    )
    assert config.to_dict()["q_model_config"] == {"fcnet_hiddens": [8], "fcnet_activation": "relu"}
    assert config.to_dict("0.8.5")["policy_model"] == {"fcnet_hiddens": [256, 256], "fcnet_activation": "tanh"}
    config.training(q_model_config={"post_fcnet_hiddens": [2], "mine": 3})
    assert config.to_dict("2.x")["q_model_config"] == {
        "fcnet_hiddens": [8], "fcnet_activation": "relu", "post_fcnet_hiddens": [2], "mine": 3,
    }  # fmt: skip
    assert SACConfig.from_dict(config.to_dict()) == config


def test_the_options_of_buffers() -> None:
    assert ReplayBufferConfig.default_dict() == {
        "type": "EpisodeReplayBuffer",
        "capacity": 10_000,
        "alpha": 0.6,
        "beta": 0.4,
        "final_beta": None,
        "beta_annealing_timesteps": 20_000,
        "eps": 1e-6,
        "worker_side_prioritization": False,
        "replay_sequence_length": None,
        "replay_mode": "independent",
    }


def test_a_buffer_keeps_its_size_where_its_kind_changes() -> None:
    config = DQNConfig().training(replay_buffer_config={"type": "EpisodeReplayBuffer"})
    assert (config.replay_buffer_config.capacity, config.replay_buffer_config.is_prioritized) == (50_000, False)
    assert DQNConfig().replay_buffer_config.is_prioritized
    own = DQNConfig().training(replay_buffer_config={"type": dict, "mine": 3, "capacity": 1e5})
    assert (own.replay_buffer_config.type, own.replay_buffer_config.mine) == (dict, 3)
    assert own.to_dict("0.8.5")["replay_buffer_config"] == {"type": dict, "mine": 3}
    assert own.to_dict("0.8.5")["buffer_size"] == own.replay_buffer_config["capacity"] == 100_000
    assert DQNConfig.from_dict(own.to_dict("0.8.5")) == own


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"capacity": 0},
            "DQNConfig.replay_buffer_config: capacity is 0, but must be a whole number from 1 on (env steps)",
        ),
        ({"alpha": -1}, "DQNConfig.replay_buffer_config: alpha is -1, but must be a number from 0 on"),
        (3, "DQNConfig: replay_buffer_config is 3, but must be a dict or a ReplayBufferConfig"),
    ],
)
def test_options_of_buffers_are_checked(given: Any, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        DQNConfig().training(replay_buffer_config=given)
    assert said in str(raised.value)


def test_the_flag_of_2_x_beside_a_type_counts() -> None:
    given = {"type": "MultiAgentPrioritizedReplayBuffer", "prioritized_replay": False}
    assert ReplayBufferConfig().update({}) is None
    assert not DQNConfig().training(replay_buffer_config=given).replay_buffer_config.is_prioritized
