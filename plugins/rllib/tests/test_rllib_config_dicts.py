"""Dicts of 0.8.5, and of later generations, and configs made of them: nothing is lost on the way there or back."""

from __future__ import annotations

import copy
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from kernel_rllib.config import AlgorithmConfig
from kernel_rllib.config.generations import GENERATIONS

DICTS = json.loads((Path(__file__).parent / "dicts_0_8_5.json").read_text(encoding="utf-8"))
MODULES = {
    "PG": "pg",
    "A2C": "a2c",
    "A3C": "a3c",
    "PPO": "ppo",
    "DDPPO": "ddppo",
    "SimpleQ": "simple_q",
    "DQN": "dqn",
    "SAC": "sac",
    "DDPG": "ddpg",
    "TD3": "td3",
    "ES": "es",
    "ARS": "ars",
    "IMPALA": "impala",
    "MARWIL": "marwil",
    "APPO": "appo",
    "QMIX": "qmix",
    "MADDPG": "maddpg",
    "ApexDQN": "apex_dqn",
    "ApexDDPG": "apex_ddpg",
    "BanditLinUCB": "bandit",
    "BanditLinTS": "bandit",
    "RandomAgent": "random_agent",
    "AlphaZero": "alpha_zero",
}


def config_class(name: str) -> Any:
    """Return the config class of an algorithm, or the common one."""
    if name == "COMMON_CONFIG":
        return AlgorithmConfig
    return getattr(importlib.import_module(f"kernel_rllib.algorithms.{MODULES[name]}"), f"{name}Config")


def ledger(name: str) -> dict[str, Any]:
    """Return the dict of 0.8.5 that the ledger has for an algorithm: the common one with what is other."""
    return copy.deepcopy({**DICTS["COMMON_CONFIG"], **DICTS.get(name, {})})


def items() -> list[Any]:
    """Return each key of each dict of 0.8.5 with another value than its default."""
    return [
        pytest.param(name, key, id=f"{name}-{key}")
        for name in DICTS
        for key in (ledger(name) if name == "COMMON_CONFIG" else DICTS[name])
    ]


OTHERS: dict[str, Any] = {
    "mcts_config": {
        "puct_coefficient": 2.0,
        "num_simulations": 8,
        "temperature": 1.0,
        "dirichlet_epsilon": 0.5,
        "dirichlet_noise": 0.3,
        "argmax_tree_policy": True,
        "add_dirichlet_noise": False,
    },
    "ranked_rewards": {
        "enable": False,
        "percentile": 50.0,
        "buffer_max_length": 9,
        "initialize_buffer": False,
        "num_init_rewards": 3,
    },
    # Where "one more", "not", or "two of it" is no value that the setting can have.
    "batch_mode": "complete_episodes",
    "callbacks": dict,
    "clip_rewards": True,
    "custom_eval_function": len,
    "custom_resources_per_worker": {"lab": 1},
    "env": "CartPole-v0",
    "env_config": {"size": 5},
    "evaluation_config": {"explore": True},
    "evaluation_interval": 2,
    "exploration_config": {"type": "SoftQ", "temperature": 1.0},
    "extra_python_environ_for_driver": {"A": "1"},
    "extra_python_environ_for_worker": {"A": "1"},
    "gamma": 0.5,
    "grad_clip": 3.0,
    "grad_norm_clipping": 3.0,
    "horizon": 100,
    "input": "/tmp/data",
    "input_evaluation": ["simulation"],
    "lambda": 0.5,
    "local_tf_session_args": {"intra_op_parallelism_threads": 1},
    "log_level": "DEBUG",
    "lr_schedule": [[0, 0.1], [1000, 0.01]],
    "entropy_coeff_schedule": [[0, 0.1], [1000, 0.01]],
    "microbatch_size": 10,
    "mixer": "vdn",
    "model": {"fcnet_hiddens": [8]},
    "opt_type": "rmsprop",
    "multiagent": {"policies": {"a": (None, None, None, {}), "b": (None, None, None, {"gamma": 0.8})}},
    "observation_filter": "MeanStdFilter",
    "optimization": {"actor_learning_rate": 1e-3},
    "optimizer": {"debug": True},
    "output": "/tmp/out",
    "output_compress_columns": ["obs"],
    "policy_model": {"fcnet_hiddens": [8]},
    "Q_model": {"fcnet_hiddens": [8]},
    "preprocessor_pref": "rllib",
    "return_proc_mode": "sign",
    "sample_batch_size": 77,
    "seed": 3,
    "target_entropy": -2.0,
    "tau": 0.5,
    "tf_session_args": {"log_device_placement": True},
    "hiddens": [8],
    "actor_hiddens": [8],
    "adv_policy": "ddpg",
    "agent_id": 1,
    "good_policy": "ddpg",
    "critic_hiddens": [8],
    "actor_hidden_activation": "tanh",
    "critic_hidden_activation": "tanh",
    "train_batch_size": 4321,
    "truncate_episodes": False,
    "v_min": -3.0,
    # Keys that are gone, each with what it said.
    "schedule_max_timesteps": 1000,
    "exploration_final_eps": 0.5,
    "exploration_fraction": None,
    "beta_annealing_fraction": None,
    "softmax_temp": None,
    "soft_q": True,
    "per_worker_exploration": True,
    "parameter_noise": True,
}


def another(key: str, value: Any) -> Any:
    """Return a value for a key that is not its default."""
    if key in OTHERS and OTHERS[key] != value:
        return OTHERS[key]
    if key == "batch_mode":
        return "truncate_episodes"
    if key == "observation_filter":
        return "NoFilter"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if value else 0.25
    raise AssertionError(f"name a value of {key}")


@pytest.mark.parametrize("name", DICTS)
def test_the_defaults_of_0_8_5_are_those_of_the_ledger(name: str) -> None:
    assert config_class(name).default_dict("0.8.5") == ledger(name)


@pytest.mark.parametrize("name", DICTS)
def test_a_dict_of_0_8_5_says_what_its_defaults_are(name: str) -> None:
    kind = config_class(name)
    made = kind.from_dict(ledger(name), generation="0.8.5")
    assert made == kind(generation="0.8.5")
    assert made.set_values() == {}


@pytest.mark.parametrize(("name", "key"), items())
def test_each_key_of_0_8_5_comes_back(name: str, key: str) -> None:
    kind = config_class(name)
    given = ledger(name)
    value = given[key] = another(key, given[key])
    made = kind.from_dict(given, generation="0.8.5")
    again = kind.from_dict(made.to_dict("0.8.5"), generation="0.8.5")
    assert again == made
    if value is None:  # such a key says something beside others only
        return
    has_no_effect = key == "schedule_max_timesteps" or (name, key) == ("ApexDQN", "per_worker_exploration")
    assert has_no_effect or kind.from_dict({key: value}, generation="0.8.5") != kind(generation="0.8.5")
    written = made.to_dict("0.8.5")
    if not isinstance(value, dict) and key in written:
        assert written[key] == value


@pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")
@pytest.mark.parametrize("name", DICTS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_config_comes_back_from_the_dict_of_any_generation(name: str, generation: Any) -> None:
    kind = config_class(name)
    made = kind(generation=generation).update_from_dict({"lr": 0.25, "env": "A", "model": {"fcnet_hiddens": [3]}})
    made.env_runners(num_env_runners=7).multi_agent(policies={"a"}).evaluation(evaluation_duration_unit="timesteps")
    for spelled in GENERATIONS:
        assert kind.from_dict(made.to_dict(spelled), generation=generation) == made


@pytest.mark.parametrize("name", DICTS)
def test_all_defaults_of_all_generations_are_values_that_the_settings_can_have(name: str) -> None:
    kind = config_class(name)
    for generation in GENERATIONS:
        settings = kind(generation=generation)
        for field in kind.fields:
            setattr(settings, field, getattr(settings, field))
        assert settings == kind(generation=generation)


@pytest.mark.parametrize(
    ("name", "generation", "key", "value"),
    [
        ("COMMON_CONFIG", "1.x", "num_workers", 2),
        ("COMMON_CONFIG", "1.x", "framework", "auto"),
        ("COMMON_CONFIG", "1.x", "metrics_episode_collection_timeout_s", 180),
        ("COMMON_CONFIG", "1.x", "normalize_actions", True),
        ("COMMON_CONFIG", "2.x", "num_rollout_workers", 0),
        ("COMMON_CONFIG", "2.x", "enable_rl_module_and_learner", False),
        ("COMMON_CONFIG", "2.x", "sync_filters_on_rollout_workers_timeout_s", 60.0),
        ("COMMON_CONFIG", "2.x", "evaluation_sample_timeout_s", 180.0),
        ("COMMON_CONFIG", "2.x", "train_batch_size", 32),
        ("COMMON_CONFIG", "2.x", "lr", 0.001),
        ("COMMON_CONFIG", "current", "num_env_runners", 0),
        ("COMMON_CONFIG", "current", "restart_failed_env_runners", True),
        ("COMMON_CONFIG", "current", "env_runner_health_probe_timeout_s", 30.0),
        ("COMMON_CONFIG", "current", "evaluation_sample_timeout_s", 120.0),
        ("PPO", "2.x", "sgd_minibatch_size", 128),
        ("PPO", "2.x", "num_sgd_iter", 30),
        ("PPO", "current", "num_epochs", 30),
        ("PPO", "current", "lambda", 1.0),
        ("PPO", "current", "rollout_fragment_length", "auto"),
        ("PPO", "current", "num_env_runners", 2),
        ("A2C", "2.x", "rollout_fragment_length", "auto"),
        ("ES", "2.x", "eval_prob", 0.03),
        ("ES", "0.8.5", "eval_prob", 0.003),
        ("DQN", "current", "epsilon", [[0, 1.0], [10_000, 0.05]]),
        ("DQN", "current", "grad_clip", 40.0),
        ("DQN", "2.x", "min_time_s_per_iteration", None),
        ("DQN", "1.x", "buffer_size", 50_000),
        ("SAC", "current", "actor_lr", 3e-5),
        ("SAC", "2.x", "optimization", {k: 3e-4 for k in ("actor_learning_rate", "critic_learning_rate",
         "entropy_learning_rate")}),
        ("SAC", "current", "lr", None),
        ("DDPPO", "2.x", "train_batch_size", 500),
        ("DDPG", "2.x", "exploration_config", {**DICTS["DDPG"]["exploration_config"], "final_scale": 0.02}),
    ],
)  # fmt: skip
def test_defaults_belong_to_a_generation(name: str, generation: Any, key: str, value: Any) -> None:
    assert config_class(name).default_dict(generation)[key] == value


def test_default_dicts_are_ones_own() -> None:
    first = AlgorithmConfig.default_dict("0.8.5")
    first["model"]["fcnet_hiddens"].append(1)
    first["evaluation_config"]["explore"] = False
    assert AlgorithmConfig.default_dict("0.8.5") == ledger("COMMON_CONFIG")
