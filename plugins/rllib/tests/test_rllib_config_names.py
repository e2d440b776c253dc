"""Old names and new ones make equal configs; names that disagree, and those that there are not, are refused."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.config import AlgorithmConfig
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.errors import ConfigError, NoSuchSettingError, UnknownSettingError

pytestmark = pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")

SCHEDULE = [[0, 1e-3], [1000, 1e-4]]

SAME: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (PPOConfig, {"num_workers": 4}, {"num_env_runners": 4}),
    (PPOConfig, {"num_rollout_workers": 4}, {"num_env_runners": 4}),
    (PPOConfig, {"num_envs_per_worker": 4}, {"num_envs_per_env_runner": 4}),
    (PPOConfig, {"sample_batch_size": 50}, {"rollout_fragment_length": 50}),
    (PPOConfig, {"num_cpus_per_worker": 2}, {"num_cpus_per_env_runner": 2}),
    (PPOConfig, {"num_gpus_per_worker": 0.5}, {"num_gpus_per_env_runner": 0.5}),
    (PPOConfig, {"custom_resources_per_worker": {"a": 1}}, {"custom_resources_per_env_runner": {"a": 1}}),
    (PPOConfig, {"num_cpus_for_driver": 2}, {"num_cpus_for_local_worker": 2}),
    (PPOConfig, {"num_cpus_for_local_worker": 2}, {"num_cpus_for_main_process": 2}),
    (PPOConfig, {"num_gpus": 1}, {"num_gpus_per_learner": 1}),
    (PPOConfig, {"num_learner_workers": 2}, {"num_learners": 2}),
    (PPOConfig, {"sgd_minibatch_size": 64}, {"minibatch_size": 64}),
    (PPOConfig, {"num_sgd_iter": 5}, {"num_epochs": 5}),
    (PPOConfig, {"shuffle_sequences": False}, {"shuffle_batch_per_epoch": False}),
    (PPOConfig, {"lambda": 0.9}, {"lambda_": 0.9}),
    (PPOConfig, {"vf_share_layers": True}, {"model": {"vf_share_layers": True}}),
    (PPOConfig, {"lr_schedule": SCHEDULE}, {"lr": SCHEDULE}),
    (PPOConfig, {"lr": 5e-5, "lr_schedule": SCHEDULE}, {"lr": SCHEDULE}),
    (PPOConfig, {"lr": 0.1, "lr_schedule": None}, {"lr": 0.1}),
    (PPOConfig, {"entropy_coeff_schedule": SCHEDULE}, {"entropy_coeff": SCHEDULE}),
    (PPOConfig, {"use_pytorch": True}, {"framework": "torch"}),
    (PPOConfig, {"eager": True}, {"framework": "tf2"}),
    (PPOConfig, {"framework": "tfe"}, {"framework": "tf2"}),
    (PPOConfig, {"use_pytorch": False, "eager": False}, {"framework": "auto"}),
    (PPOConfig, {"use_pytorch": False, "framework": "torch"}, {"framework": "torch"}),
    (PPOConfig, {"monitor": True}, {"render_env": True}),
    (PPOConfig, {"record_env": "/tmp/videos"}, {"render_env": "/tmp/videos"}),
    (PPOConfig, {"input": "/tmp/a"}, {"input_": "/tmp/a"}),
    (PPOConfig, {"callbacks": dict}, {"callbacks_class": dict}),
    (PPOConfig, {"evaluation_num_workers": 1}, {"evaluation_num_env_runners": 1}),
    (PPOConfig, {"evaluation_num_episodes": 7}, {"evaluation_duration": 7, "evaluation_duration_unit": "episodes"}),
    (PPOConfig, {"custom_eval_function": len}, {"custom_evaluation_function": len}),
    (PPOConfig, {"input_evaluation": ["wis"]}, {"off_policy_estimation_methods": {"wis": {"type": "wis"}}}),
    (PPOConfig, {"input_evaluation": []}, {"off_policy_estimation_methods": {}}),
    (PPOConfig, {"collect_metrics_timeout": 9}, {"metrics_episode_collection_timeout_s": 9}),
    (PPOConfig, {"metrics_smoothing_episodes": 9}, {"metrics_num_episodes_for_smoothing": 9}),
    (PPOConfig, {"min_iter_time_s": 9}, {"min_time_s_per_iteration": 9}),
    (PPOConfig, {"min_time_s_per_reporting": 9}, {"min_time_s_per_iteration": 9}),
    (PPOConfig, {"timesteps_per_iteration": 9}, {"min_sample_timesteps_per_iteration": 9}),
    (PPOConfig, {"min_sample_timesteps_per_reporting": 9}, {"min_sample_timesteps_per_iteration": 9}),
    (PPOConfig, {"min_train_timesteps_per_reporting": 9}, {"min_train_timesteps_per_iteration": 9}),
    (PPOConfig, {"synchronize_filters": False}, {"update_worker_filter_stats": False}),
    (PPOConfig, {"ignore_worker_failures": True}, {"ignore_env_runner_failures": True}),
    (PPOConfig, {"recreate_failed_workers": False}, {"restart_failed_env_runners": False}),
    (PPOConfig, {"worker_restore_timeout_s": 9}, {"env_runner_restore_timeout_s": 9}),
    (PPOConfig, {"create_env_on_driver": True}, {"create_env_on_local_worker": True}),
    (PPOConfig, {"extra_python_environ_for_driver": {"A": "1"}}, {"extra_python_environs_for_driver": {"A": "1"}}),
    (PPOConfig, {"_enable_new_api_stack": False},
     {"enable_rl_module_and_learner": False, "enable_env_runner_and_connector_v2": False}),
    (PPOConfig, {"truncate_episodes": False}, {"batch_mode": "complete_episodes"}),
    (PPOConfig, {"multiagent": {"policies": {"a", "b"}, "policies_to_train": ["a"], "policy_mapping_fn": len}},
     {"policies": ["a", "b"], "policies_to_train": ["a"], "policy_mapping_fn": len}),
    (PPOConfig, {"multiagent": {"policy_graphs": {"a": (None, 1, 2, {})}}}, {"policies": {"a": PolicySpec(None, 1, 2,
     {})}}),
    (PPOConfig, {"multiagent": {"policies": {}, "policy_mapping_fn": None}}, {}),
    (PPOConfig, {"model": {"custom_options": {"a": 1}}}, {"model": {"custom_model_config": {"a": 1}}}),
    (PPOConfig, {"model": {"lstm_use_prev_action_reward": True}},
     {"model": {"lstm_use_prev_action": True, "lstm_use_prev_reward": True}}),
    (PPOConfig, {"model": {"post_fcnet_hiddens": [4]}}, {"model": {"head_fcnet_hiddens": [4]}}),
    (PPOConfig, {"model": {"fcnet_weights_initializer_config": {"a": 1}}},
     {"model": {"fcnet_kernel_initializer_kwargs": {"a": 1}}}),
    (DQNConfig, {"buffer_size": 99}, {"replay_buffer_config": {"capacity": 99}}),
    (DQNConfig, {"learning_starts": 99}, {"num_steps_sampled_before_learning_starts": 99}),
    (DQNConfig, {"prioritized_replay": False}, {"replay_buffer_config": {"type": "EpisodeReplayBuffer"}}),
    (DQNConfig, {"prioritized_replay_alpha": 0.1}, {"replay_buffer_config": {"alpha": 0.1}}),
    (DQNConfig, {"prioritized_replay_beta": 0.1}, {"replay_buffer_config": {"prioritized_replay_beta": 0.1}}),
    (DQNConfig, {"final_prioritized_replay_beta": 1.0}, {"replay_buffer_config": {"final_beta": 1.0}}),
    (DQNConfig, {"prioritized_replay_eps": 0.1}, {"replay_buffer_config": {"eps": 0.1}}),
    (DQNConfig, {"worker_side_prioritization": True}, {"replay_buffer_config": {"worker_side_prioritization": True}}),
    (DQNConfig, {"replay_buffer_config": {"type": "MultiAgentReplayBuffer"}},
     {"replay_buffer_config": {"type": "EpisodeReplayBuffer"}}),
    (DQNConfig, {"replay_buffer_config": {"type": "ray.rllib.utils.replay_buffers.MultiAgentPrioritizedReplayBuffer"}},
     {}),
    (DQNConfig, {"exploration_final_eps": 0.5}, {"exploration_config": {"final_epsilon": 0.5}}),
    (DQNConfig, {"schedule_max_timesteps": 1000, "exploration_fraction": 0.1},
     {"exploration_config": {"epsilon_timesteps": 100}}),
    (DQNConfig, {"schedule_max_timesteps": 1000, "beta_annealing_fraction": 0.2},
     {"replay_buffer_config": {"beta_annealing_timesteps": 200}}),
    (DQNConfig, {"soft_q": True, "softmax_temp": 2.0}, {"exploration_config": {"type": "SoftQ", "temperature": 2.0}}),
    (DQNConfig, {"parameter_noise": True}, {"exploration_config": {"type": "ParameterNoise"}}),
    (DQNConfig, {"per_worker_exploration": True}, {"exploration_config": {"type": "PerWorkerEpsilonGreedy"}}),
    (DQNConfig, {"grad_norm_clipping": 3.0}, {"grad_clip": 3.0}),
    (DDPGConfig, {"grad_norm_clipping": 3.0}, {"grad_clip": 3.0}),
    (SACConfig, {"optimization": {"actor_learning_rate": 0.1}}, {"actor_lr": 0.1}),
    (SACConfig, {"Q_model": {"hidden_layer_sizes": [4], "hidden_activation": "tanh"}},
     {"q_model_config": {"fcnet_hiddens": [4], "fcnet_activation": "tanh"}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "old", "new"), SAME, ids=lambda value: "-".join(value) if isinstance(value, dict) else ""
)
def test_old_and_new_names_make_equal_configs(kind: Any, old: dict[str, Any], new: dict[str, Any]) -> None:
    one, other = kind.from_dict(old), kind.from_dict(new)
    assert one == other
    assert one.to_dict() == other.to_dict()
    assert one.to_dict("0.8.5") == other.to_dict("0.8.5")
    assert kind.from_dict({**old, **new}) == one, "two names that agree are as good as one"


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (PPOConfig, {"num_workers": 2, "num_env_runners": 3},
         "PPOConfig: num_workers=2 and num_env_runners=3 are two names of num_env_runners and disagree; give one of"),
        (PPOConfig, {"num_rollout_workers": 2, "num_workers": 3},
         "num_rollout_workers=2 and num_workers=3 are two names"),
        (PPOConfig, {"sgd_minibatch_size": 1, "minibatch_size": 2}, "sgd_minibatch_size=1 and minibatch_size=2"),
        (PPOConfig, {"use_pytorch": True, "framework": "tf"},
         "use_pytorch='torch' and framework='tf' are two names of framework_str"),
        (PPOConfig, {"use_pytorch": True, "eager": True}, "PPOConfig: use_pytorch=True and eager=True ask for two"),
        (PPOConfig, {"multiagent": {"policies": ["a"]}, "policies": ["b"]},
         "multiagent=['a'] and policies=['b'] are two names"),
        (PPOConfig, {"evaluation_num_episodes": 3, "evaluation_duration": 4}, "are two names of evaluation_duration"),
        (PPOConfig, {"model": {"custom_options": {"a": 1}, "custom_model_config": {"a": 2}}},
         "custom_options/a=1 and custom_model_config/a=2 are two names of custom_model_config/a"),
        (DQNConfig, {"buffer_size": 1, "replay_buffer_config": {"capacity": 2}},
         "buffer_size=1 and replay_buffer_config/capacity=2 are two names of replay_buffer_config/capacity"),
        (DQNConfig, {"exploration_fraction": 0.1},
         "exploration_fraction=0.1 is a part of schedule_max_timesteps, which is missing"),
        (SACConfig, {"optimization": {"actor_learning_rate": 1.0}, "actor_lr": 2.0},
         "are two names of actor_lr and disagree"),
        (SACConfig, {"optimization": {"actor_rate": 1.0}},
         "optimization has no setting 'actor_rate'; did you mean 'actor_learning_rate'?"),
        (PPOConfig, {"multiagent": {"policy_mapping": len}},
         "multiagent has no setting 'policy_mapping'; did you mean 'policy_mapping_fn'?"),
        (PPOConfig, {"multiagent": 3}, "PPOConfig: multiagent is 3, but must be a dict of policies"),
        (PPOConfig, {"input_evaluation": "is"}, "input_evaluation is 'is', but must be a list of names"),
        (PPOConfig, {5: 3}, "PPOConfig: 5 is no name of a setting; names are text"),
    ],
)  # fmt: skip
def test_names_that_disagree_are_refused(kind: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        kind.from_dict(given)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("num_worker", "; did you mean 'num_workers'?"),
        ("train_batch_sise", "; did you mean 'train_batch_size'?"),
        ("Gamma", "; did you mean 'gamma'?"),
        ("lamda", "; did you mean 'lambda'?"),
        ("gpu", "; num_gpus=1 gives the learner a GPU"),
        ("use_gpu_for_workers", "; num_gpus_per_worker=1 gives each runner a GPU"),
        ("zzzzzz", ""),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(key: str, hint: str) -> None:
    for generation in ("0.8.5", "1.x"):
        with pytest.raises(UnknownSettingError) as raised:
            PPOConfig.from_dict({key: 1}, generation=generation)
        assert str(raised.value) == f"PPOConfig has no setting {key!r}{hint}"
        assert isinstance(raised.value, KeyError)


def test_a_key_of_ones_own_is_not_called_like_a_method() -> None:
    for name in ("training", "copy", "to_dict"):
        with pytest.raises(ConfigError, match=f"PPOConfig: '{name}' can't be a setting of yours, as there is a method"):
            PPOConfig().update_from_dict({name: 1})


def test_minus_one_is_refused_for_a_name_of_the_generation_itself() -> None:
    with pytest.raises(ConfigError, match="num_env_runners is -1, but must be a whole number from 0 on"):
        PPOConfig.from_dict({"num_workers": -1}, generation="0.8.5")
    assert PPOConfig.from_dict({"num_workers": -1}) == PPOConfig()
    untouched = {"monitor": -1, "evaluation_num_episodes": -1, "min_iter_time_s": -1, "collect_metrics_timeout": -1}
    assert PPOConfig.from_dict(untouched, generation="1.x") == PPOConfig(generation="1.x")


def test_later_generations_keep_an_unknown_key() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = PPOConfig().update_from_dict({"zoom_of_my_policy": 3})
    assert config.zoom_of_my_policy == config["zoom_of_my_policy"] == config.to_dict()["zoom_of_my_policy"] == 3
    assert PPOConfig.from_dict(config.to_dict()) == config != PPOConfig()
    config.zoom_of_my_policy = 4
    assert config.get("zoom_of_my_policy") == 4
    with pytest.raises(UnknownSettingError, match="no setting 'zoom'"):
        config.update_from_dict({"zoom": 3}, keep_unknown=False)


@pytest.mark.parametrize(("given", "meant"), [("num_worker", "num_workers"), ("lrr", "lr"), ("exploree", "explore")])
def test_a_kept_key_that_is_almost_a_setting_is_warned_of_where_it_is_given(given: str, meant: str) -> None:
    with pytest.warns(
        UserWarning, match=f"PPOConfig has no setting '{given}', which is kept as yours; there is '{meant}'"
    ) as seen:
        config = PPOConfig.from_dict({given: 3})
    assert seen[0].filename == __file__
    assert config[given] == 3


def test_a_warning_lists_older_names_where_they_are_given() -> None:
    with pytest.warns(DeprecationWarning) as seen:
        PPOConfig().update_from_dict(
            {"num_workers": 3, "sgd_minibatch_size": 64, "lambda": 0.5, "lr": 1.0, "num_gpus": -1}
        )
    assert [str(each.message) for each in seen] == [
        "PPOConfig: older names of settings: num_workers (now num_env_runners), sgd_minibatch_size (now minibatch_size)"
    ]
    assert seen[0].filename == __file__


def test_a_generation_is_not_warned_of_its_own_names() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        older = PPOConfig.from_dict({"num_workers": 3, "num_sgd_iter": 2}, generation="0.8.5")
        newer = PPOConfig(generation="2.x").training(num_sgd_iter=2).rollouts(num_rollout_workers=3)
    assert (older.num_env_runners, older.num_epochs) == (newer.num_env_runners, newer.num_epochs) == (3, 2)


@pytest.mark.parametrize(
    "given",
    [
        {"sample_batch_size": -1},
        {"schedule_max_timesteps": -1, "soft_q": -1, "softmax_temp": -1, "parameter_noise": -1},
        {"grad_norm_clipping": -1},
        {"horizon": -1, "soft_horizon": -1, "no_done_at_end": -1},
        {"simple_optimizer": -1},
        {"evaluation_num_episodes": -1},
        {"input_evaluation": -1, "replay_mode": -1, "policy_map_cache": -1, "worker_cls": -1},
        {"env_task_fn": -1, "enable_async_evaluation": -1, "always_attach_evaluation_results": -1},
        {"custom_async_evaluation_function": -1, "replay_batch_size": -1},
        {"vf_share_layers": -1},
        {"model": {"lstm_use_prev_action_reward": -1}},
        {"replay_buffer_config": {"prioritized_replay": -1}},
    ],
    ids=lambda given: "-".join(given),
)
@pytest.mark.parametrize("generation", ["0.8.5", "current"])
def test_what_nobody_has_set_is_left_as_it_is(given: dict[str, Any], generation: Any) -> None:
    assert DQNConfig.from_dict(given, generation=generation) == DQNConfig(generation=generation)


def test_minus_one_is_a_value_where_it_is_one() -> None:
    assert PPOConfig.from_dict({"train_batch_size": -1}).train_batch_size == -1
    assert PPOConfig.from_dict({"of_my_own": -1}).of_my_own == -1
    assert PPOConfig.from_dict({"of_my_own": -1}, generation="0.8.5") == PPOConfig(generation="0.8.5")


def test_older_names_read_and_set_the_same_settings() -> None:
    config = DQNConfig()
    config.num_workers = 3
    config["num_sgd_iter"] = 5
    config.buffer_size = 7
    config.lr_schedule = SCHEDULE
    assert (config.num_env_runners, config.num_rollout_workers, config["num_workers"]) == (3, 3, 3)
    assert (config.num_epochs, config.get("num_sgd_iter")) == (5, 5)
    assert config.replay_buffer_config.capacity == config["buffer_size"] == 7
    assert config.lr == config.lr_schedule == SCHEDULE
    assert config.use_pytorch is False
    assert config.multiagent == {"policies": {}, "policy_mapping_fn": None, "policies_to_train": None}
    assert "num_workers" in config and "framework" in config and "nothing_of_the_kind" not in config


@pytest.mark.parametrize(
    "read", [lambda config: config.num_rolout_workers, lambda config: config["num_rolout_workers"]]
)
def test_reading_a_name_that_there_is_not_names_the_nearest(read: Any) -> None:
    with pytest.raises(ConfigError, match="did you mean 'num_rollout_workers'?") as raised:
        read(AlgorithmConfig())
    assert isinstance(raised.value, (AttributeError, KeyError))
    assert not hasattr(AlgorithmConfig(), "num_rolout_workers")


def test_a_new_attribute_is_taken_for_a_mistake() -> None:
    with pytest.raises(NoSuchSettingError) as raised:
        PPOConfig().trian_batch_size = 3  # type: ignore[attr-defined]
    assert str(raised.value) == (
        "PPOConfig has no setting 'trian_batch_size'; did you mean 'train_batch_size'? "
        "Add one of your own by update_from_dict({'trian_batch_size': ...})"
    )
    with pytest.raises(NoSuchSettingError, match="no setting 'xyz'; Add one"):
        PPOConfig().xyz = 3  # type: ignore[attr-defined]
