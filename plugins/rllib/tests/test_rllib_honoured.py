"""Settings that are taken are read: each algorithm acts on what it does not refuse, and refuses the rest with words."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.model_config import ModelConfig
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.games.cart_pole_sparse_rewards import CartPoleSparseRewards
from kernel_rllib.envs.games.contextual_bandits import LinearDiscreteEnv
from kernel_rllib.envs.games.known_rewards import CartPoleWithReward
from kernel_rllib.envs.games.long_term_satisfaction import LongTermSatisfaction
from kernel_rllib.envs.games.point_goal import PointGoal
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.envs.games.two_step_game import TwoStepGame, grouped_two_step_game
from kernel_rllib.errors import ConfigError
from kernel_rllib.training.honoured import HONOURED, HONOURED_OF_MODELS, OF_ATTENTION, OF_LSTM
from kernel_rllib.training.registry import algorithm_class

FEW = {
    "env": "CartPole-v1", "num_env_runners": 0, "num_envs_per_env_runner": 2, "seed": 1,
    "model": {"fcnet_hiddens": [4]},
}  # fmt: skip
CONTINUOUS = {**FEW, "env": "Pendulum-v1"}
REPLAYED = {"num_steps_sampled_before_learning_starts": 8, "train_batch_size": 8, "rollout_fragment_length": 4}
IMPALA = {**FEW, "train_batch_size": 32, "opt_type": "rmsprop", "min_time_s_per_iteration": 0}
OF_DDPG = {**CONTINUOUS, **REPLAYED, "model": {}, "actor_hiddens": [4], "critic_hiddens": [4], "grad_clip": 1.0}
OF_APEX = {"min_time_s_per_iteration": 0, "min_sample_timesteps_per_iteration": 16, "num_envs_per_env_runner": 2}
OF_APEX |= {"optimizer": {"num_replay_buffer_shards": 0}, "target_network_update_freq": 8}
RUNS: dict[str, dict[str, Any]] = {
    "A2C": {**FEW, "train_batch_size": 16},
    "A3C": {**FEW, "sample_async": False, "rollout_fragment_length": 8, "min_time_s_per_iteration": 0},
    "APPO": {**IMPALA, "minibatch_size": 16, "vtrace": False, "use_kl_loss": True},
    "AlphaStar": {
        **IMPALA,
        "env": RockPaperScissors,
        "minibatch_size": 16,
        "vtrace": False,
        "use_kl_loss": True,
        "league_builder_config": {"num_random_policies": 0, "num_learning_main_exploiters": 1},
    },
    "AlphaZero": {
        **FEW,
        "env": CartPoleSparseRewards,
        "env_config": {"max_episode_steps": 6},
        "rollout_fragment_length": 4,
        "num_steps_sampled_before_learning_starts": 1,
        "train_batch_size": 8,
        "minibatch_size": 8,
        "num_epochs": 1,
        "mcts_config": {"num_simulations": 2},
        "ranked_rewards": {"num_init_rewards": 2},
    },
    "ApexDDPG": {**OF_DDPG, **OF_APEX},
    "ApexDQN": {**FEW, **REPLAYED, **OF_APEX},
    "ARS": {**FEW, "num_rollouts": 2, "rollouts_used": 2},
    "BanditLinTS": {**FEW, "env": LinearDiscreteEnv, "model": {}},
    "BanditLinUCB": {**FEW, "env": LinearDiscreteEnv, "model": {}},
    "CQL": {**CONTINUOUS, **REPLAYED, "num_actions": 2, "lagrangian": True, "bc_iters": 1},
    "CRR": {**OF_DDPG, "weight_type": "exp", "target_update_grad_intervals": 1},
    "DDPG": {**OF_DDPG, "smooth_target_policy": True, "use_huber": True},
    "Dreamer": {
        **CONTINUOUS,
        "model": {},
        "horizon": 20,
        "prefill_timesteps": 20,
        "dreamer_model": {"deter_size": 4, "stoch_size": 2, "hidden_size": 4},
        "batch_size": 2,
        "batch_length": 4,
        "dreamer_train_iters": 1,
    },
    "DreamerV3": {
        **FEW,
        "model": {},
        "model_size": "nano",
        "batch_size_B": 2,
        "batch_length_T": 4,
        "training_ratio": 1,
        "min_sample_timesteps_per_iteration": 32,
    },
    "DQN": {**FEW, **REPLAYED, "min_time_s_per_iteration": 0},
    "DT": {
        **FEW,
        "model": {"max_seq_len": 4},
        "embed_dim": 4,
        "num_layers": 1,
        "target_return": 50,
        "horizon": 200,
        "loss_coef_obs": 1.0,
        "min_train_timesteps_per_iteration": 1,
    },
    "ES": {**FEW, "episodes_per_batch": 2, "train_batch_size": 20},
    "BC": {**FEW, "train_batch_size": 16},
    "IMPALA": IMPALA,
    "MARWIL": {**FEW, "train_batch_size": 16},
    "IQL": {**CONTINUOUS, **REPLAYED},
    "IQN": {**FEW, **REPLAYED, "num_quantiles": 4, "min_time_s_per_iteration": 0},
    "MADDPG": {**OF_DDPG, "env": TwoStepGame, "training_intensity": 4, "min_sample_timesteps_per_iteration": 40},
    "MAML": {**CONTINUOUS, "env": PointGoal, "rollout_fragment_length": 8, "maml_optimizer_steps": 1},
    "MBMPO": {
        **FEW,
        "env": CartPoleWithReward,
        "rollout_fragment_length": 8,
        "horizon": 8,
        "num_maml_steps": 1,
        "maml_optimizer_steps": 1,
        "imagined_episodes": 2,
        "dynamics_model": {"ensemble_size": 2, "fcnet_hiddens": [4], "train_epochs": 1, "batch_size": 8},
    },
    "PG": {**FEW, "train_batch_size": 16},
    "PPO": {**FEW, "train_batch_size": 32, "minibatch_size": 16, "num_epochs": 1, "evaluation_interval": 1},
    "QMIX": {
        **REPLAYED,
        "env": grouped_two_step_game,
        "num_env_runners": 0,
        "seed": 1,
        "model": {"lstm_cell_size": 4},
        "min_time_s_per_iteration": 0,
        "min_sample_timesteps_per_iteration": 40,
        "target_network_update_freq": 8,
    },
    "ApexQMIX": {
        **REPLAYED,
        **OF_APEX,
        "env": grouped_two_step_game,
        "num_env_runners": 0,
        "seed": 1,
        "model": {"lstm_cell_size": 4},
    },
    "QRDQN": {**FEW, **REPLAYED, "num_quantiles": 4, "min_time_s_per_iteration": 0},
    "RandomAgent": {"env": "CartPole-v1", "seed": 1, "rollouts_per_iteration": 2},
    "R2D2": {
        **FEW,
        **REPLAYED,
        "training_intensity": 1.0,
        "min_sample_timesteps_per_iteration": 16,
        "batch_mode": "truncate_episodes",
        "target_network_update_freq": 8,
    },
    "SAC": {**CONTINUOUS, **REPLAYED, "min_time_s_per_iteration": 0, "min_sample_timesteps_per_iteration": 8},
    "SimpleQ": {**FEW, **REPLAYED},
    "SlateQ": {
        **FEW,
        **REPLAYED,
        "env": LongTermSatisfaction,
        "model": {},
        "use_huber": True,
        "target_network_update_freq": 4,
        "min_time_s_per_iteration": 0,
        "min_sample_timesteps_per_iteration": 8,
    },
    "TD3": OF_DDPG,
    "TQC": {**CONTINUOUS, **REPLAYED, "min_time_s_per_iteration": 0, "min_sample_timesteps_per_iteration": 8},
}
"""Of each algorithm a run of one iteration. The workers of DD-PPO read its settings in processes of their own."""

IN_TIME = {
    "_validate_config", "algorithm_config_overrides_per_module", "always_attach_evaluation_results", "count_steps_by",
    "callbacks_on_evaluate_end", "callbacks_on_evaluate_start", "custom_evaluation_function",
    "custom_resources_for_main_process", "custom_resources_per_env_runner", "enable_rl_module_and_learner", "explore",
    "evaluation_auto_duration_max_env_steps_per_sample", "evaluation_auto_duration_min_env_steps_per_sample",
    "evaluation_config", "evaluation_duration", "evaluation_duration_unit", "evaluation_num_env_runners",
    "evaluation_error_after_n_consecutive_skips", "evaluation_force_reset_envs_before_iteration",
    "evaluation_interval", "evaluation_parallel_to_training", "evaluation_sample_timeout_s", "grad_clip_by",
    "ignore_env_runner_failures", "in_evaluation", "log_level", "logger_creator",
    "max_requests_in_flight_per_replay_worker", "num_cpus_for_main_process",
    "num_consecutive_env_runner_failures_tolerance", "num_gpus_per_env_runner", "placement_strategy",
    "policies_to_train", "policy_mapping_fn", "restart_failed_env_runners", "store_buffer_in_checkpoints",
    "train_batch_size_per_learner", "input_config", "actions_in_input_normalized", "output_config",
    "output_compress_columns", "output_max_file_size", "shuffle_buffer_size", "off_policy_estimation_methods",
    "ope_split_batch_by_episode",
}  # fmt: skip
"""What is read where there are runners, shards, evaluations, checkpoints, several agents, Tune or recorded experience;
each of these has tests of its own."""

OF_IMAGES = {"dim", "framestack", "grayscale", "zero_mean"}
OF_OTHER_MODELS = {*OF_LSTM, *OF_ATTENTION, *OF_IMAGES, "custom_action_dist", "free_log_std", "lstm_cell_size"}
OF_OTHERS = {
    "use_state_preprocessor", "_use_beta_distribution", "target_noise", "target_noise_clip", "huber_threshold",
    "vtrace_clip_rho_threshold", "vtrace_clip_pg_rho_threshold",
}  # fmt: skip


@contextmanager
def reads() -> Iterator[dict[str, set[str]]]:
    """Record which settings are read, and by which files, but for those that only check or show them."""
    found: dict[str, set[str]] = defaultdict(set)
    usual = Field.__get__

    def get(field: Field[Any], settings: Any, owner: type) -> Any:
        if settings is not None:
            frame = sys._getframe(1)
            while "/config/settings" in frame.f_code.co_filename and frame.f_back is not None:
                frame = frame.f_back
            path = frame.f_code.co_filename.rpartition("kernel_rllib/")[2]
            checks = ("config/sections", "config/validate", "config/settings", "training/honoured")
            if not path.startswith(checks) and frame.f_code.co_name != "problems":
                found["model/" * issubclass(owner, ModelConfig) + field.name].add(path)
        return usual(field, settings, owner)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Field, "__get__", get)
        yield found


@pytest.mark.parametrize("name", RUNS)
def test_what_an_algorithm_takes_it_reads(name: str) -> None:
    cls = algorithm_class(name)
    with reads() as found:
        algorithm = cls(dict(RUNS[name]))
        algorithm.train()
        algorithm.stop()
    taken = {
        field
        for field, declared in cls.config_class.fields.items()
        if not declared.inert
        and (field not in AlgorithmConfig.fields or field in HONOURED or field in cls.acts_on)
        and field not in cls.without
    }
    taken |= {
        f"model/{option}"
        for option, declared in ModelConfig.fields.items()
        if not declared.inert
        and (option in HONOURED_OF_MODELS or f"model/{option}" in cls.acts_on)
        and f"model/{option}" not in cls.without
    }
    later = IN_TIME | OF_OTHERS | {f"model/{option}" for option in OF_OTHER_MODELS}
    later |= {"lr"} if "actor_lr" in cls.config_class.fields else set()  # refused among its contradictions
    assert sorted(taken - found.keys() - later) == []


ONCE = "A2C A3C ApexDDPG ApexDQN ApexQMIX ARS DDPG DQN ES IQN MADDPG PG QMIX QRDQN R2D2 SAC SimpleQ TD3 TQC"


@pytest.mark.parametrize("name", ONCE.split())
def test_an_algorithm_that_learns_from_a_batch_once_refuses_passes(name: str) -> None:
    with pytest.raises(ConfigError, match=f"num_epochs has no effect on {name}: it learns from each batch once"):
        algorithm_class(name)({**RUNS[name], "num_epochs": 3})


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("DDPG", {"model": {"fcnet_hiddens": [8]}}, r"\['fcnet_hiddens'\] has no effect on DDPG: give the layers to"),
        ("TD3", {"model": {"fcnet_activation": "relu"}}, r"has no effect on TD3: give it to actor_hidden_activation"),
        ("DQN", {"model": {"vf_share_layers": False}}, r"model\['vf_share_layers'\] has no effect on DQN: there is no"),
        ("ARS", {"gamma": 0.5}, "gamma has no effect on ARS: the returns of trials are sums of rewards"),
        ("ES", {"lr": 0.5}, r"lr has no effect on ES: its step has a name of its own: stepsize \(ES\)"),
        ("A3C", {"train_batch_size": 64}, "train_batch_size has no effect on A3C: each fragment of a runner is a"),
        ("SAC", {"num_workers": 0, "lr": 0.5}, "lr=0.5 has no effect on SAC, each network of which has a rate"),
        ("ES", {"model": {"use_lstm": True}},
         r"ES does not act on model\['use_lstm'\], as A2C, A3C, APPO, AlphaStar, DDPPO, IMPALA, PG, PPO, R2D2 do\."),
        ("DQN", {"pipelined_sampling": True, "fake_sampler": True},
         "no algorithm acts on fake_sampler yet; DQN does not act on pipelined_sampling, as A2C, PG, PPO do"),
        ("PG", {"input_": "/tmp/out", "input_read_episodes": True},
         "no algorithm acts on input_read_episodes yet.* or functions that return an InputReader or an OutputWriter"),
        ("ES", {"output": "/tmp/out"}, "output has no effect on ES: trials tell their returns alone, and keep no"),
        ("ARS", {"input_": "/tmp/out"}, "input has no effect on ARS: it learns from the returns of trials that it"),
        ("PPO", {"create_env_on_local_worker": True, "num_env_runners": 1}, "With runners, the learner's own has"),
        ("PPO", {"model": {"fcnet_hidens": [8]}},
         r"PPOConfig.model has no option 'fcnet_hidens'; did you mean 'fcnet_hiddens'\?\. Options of any name are for"),
        ("PPO", {"algorithm_config_overrides_per_module": {"default_policy": {"lr": 1.0}}},
         "PPOConfig: the environment has one agent, and its policy was given settings of its own"),
        ("PPO", {"algorithm_config_overrides_per_module": {"default_polcy": {"lr": 1.0}}},
         "algorithm_config_overrides_per_module has 'default_polcy', which is not one of policies; did you mean"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*has no setting 'fcnet_hidens'")
def test_what_an_algorithm_does_not_act_on_is_refused(name: str, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        algorithm_class(name)({**RUNS[name], **wrong})


def test_minibatches_keep_the_order_of_rows_where_they_are_not_shuffled() -> None:
    batch = Batch({"obs": np.arange(6)})
    parts = batch.minibatches(3, np.random.default_rng(0), epochs=2, shuffle=False)
    assert [part["obs"].tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]] * 2


def test_passes_of_ppo_are_in_order_where_shuffling_is_off() -> None:
    seen: list[Any] = []

    class Watching(algorithm_class("PPO")):  # type: ignore[misc]
        def update(self, batch: Any, only: Any = None) -> Any:
            seen.append(batch["obs"].copy())
            return super().update(batch, only)

    for shuffles in (False, True):
        Watching({**RUNS["PPO"], "num_epochs": 2, "shuffle_batch_per_epoch": shuffles}).train()
    np.testing.assert_array_equal(seen[0], seen[2])
    assert not np.array_equal(seen[4], seen[6])


def test_actions_are_the_best_ones_where_training_does_not_explore() -> None:
    seen: list[Any] = []

    class Watching(algorithm_class("PPO")):  # type: ignore[misc]
        def learn(self, fragments: Any) -> Any:
            seen.extend(fragment.batch() for fragment in fragments)
            return super().learn(fragments)

    Watching({**RUNS["PPO"], "explore": False}).train()
    for batch in seen:
        np.testing.assert_array_equal(batch["actions"], batch["action_dist_inputs"].argmax(axis=1))
        assert (batch["action_logp"] < 0).all()
