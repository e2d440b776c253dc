"""Which common settings algorithms act on. A setting that nothing acts on is refused, not ignored.

Settings that an algorithm declares itself are its own to act on.
"""

from __future__ import annotations

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.errors import ConfigError

HONOURED = {
    "env",
    "env_config",
    "env_task_fn",
    "render_env",
    "observation_space",
    "action_space",
    "normalize_actions",
    "clip_actions",
    "clip_rewards",
    "is_atari",
    "observation_filter",
    "update_worker_filter_stats",
    "env_to_module_connector",
    "disable_env_checking",
    "auto_wrap_old_gym_envs",
    "num_env_runners",
    "num_envs_per_env_runner",
    "num_envs",
    "gym_env_vectorize_mode",
    "num_cpus_per_env_runner",
    "num_gpus_per_env_runner",
    "custom_resources_per_env_runner",
    "rollout_fragment_length",
    "batch_mode",
    "remote_worker_envs",
    "preprocessor_pref",
    "create_local_env_runner",
    "create_env_on_local_worker",
    "validate_env_runners_after_construction",
    "gamma",
    "lr",
    "grad_clip",
    "grad_clip_by",
    "train_batch_size",
    "train_batch_size_per_learner",
    "num_epochs",
    "minibatch_size",
    "shuffle_batch_per_epoch",
    "model",
    "optimizer",
    "framework_str",
    "num_cpus_for_main_process",
    "custom_resources_for_main_process",
    "placement_strategy",
    "explore",
    "exploration_config",
    "evaluation_interval",
    "evaluation_duration",
    "evaluation_duration_unit",
    "evaluation_config",
    "evaluation_num_env_runners",
    "evaluation_parallel_to_training",
    "evaluation_auto_duration_min_env_steps_per_sample",
    "evaluation_auto_duration_max_env_steps_per_sample",
    "evaluation_sample_timeout_s",
    "env_runner_health_probe_timeout_s",
    "env_runner_restore_timeout_s",
    "sample_timeout_s",
    "horizon",
    "no_done_at_end",
    "remote_env_batch_wait_ms",
    "min_train_timesteps_per_iteration",
    "max_num_env_runner_restarts",
    "log_sys_usage",
    "evaluation_force_reset_envs_before_iteration",
    "evaluation_error_after_n_consecutive_skips",
    "evaluation_unhealthy_workers_timeout_s",
    "custom_evaluation_function",
    "always_attach_evaluation_results",
    "enable_async_evaluation",
    "in_evaluation",
    "metrics_num_episodes_for_smoothing",
    "keep_per_episode_custom_metrics",
    "callbacks_class",
    "callbacks_on_algorithm_init",
    "callbacks_on_train_result",
    "callbacks_on_evaluate_start",
    "callbacks_on_evaluate_end",
    "callbacks_on_env_runners_recreated",
    "callbacks_on_checkpoint_loaded",
    "callbacks_on_environment_created",
    "callbacks_on_episode_created",
    "callbacks_on_episode_start",
    "callbacks_on_episode_step",
    "callbacks_on_episode_end",
    "callbacks_on_sample_end",
    "min_time_s_per_iteration",
    "min_sample_timesteps_per_iteration",
    "policies",
    "policy_mapping_fn",
    "policies_to_train",
    "algorithm_config_overrides_per_module",
    "count_steps_by",
    "seed",
    "logger_creator",
    "log_level",
    "recovery",
    "restart_failed_env_runners",
    "ignore_env_runner_failures",
    "restart_failed_sub_environments",
    "num_consecutive_env_runner_failures_tolerance",
    "enable_rl_module_and_learner",
    "_validate_config",
}
"""Common settings."""

HONOURED_OF_MODELS = {
    "fcnet_hiddens",
    "fcnet_activation",
    "vf_share_layers",
    "free_log_std",
    "dim",
    "grayscale",
    "zero_mean",
    "custom_preprocessor",
    "framestack",
}
"""Options of the model."""

HEADS = frozenset({"model/head_fcnet_hiddens", "model/head_fcnet_activation"})
"""What algorithms act on whose networks have dense layers after the encoder."""

IMAGES = frozenset({"model/conv_filters", "model/conv_activation"})
"""What algorithms act on whose networks have convolutions. Others refuse observations that are images."""

OWN_MODELS = frozenset({"model/custom_model", "model/custom_model_config", "rl_module_spec"})
"""What algorithms act on that take models of the user's own."""

OF_LSTM = ("lstm_use_prev_action", "lstm_use_prev_reward")
"""Options of the model that count only with an LSTM, or with a model of the user's own."""

OF_ATTENTION = (
    "attention_num_transformer_units",
    "attention_dim",
    "attention_num_heads",
    "attention_head_dim",
    "attention_memory_inference",
    "attention_memory_training",
    "attention_position_wise_mlp_dim",
    "attention_init_gru_gate_bias",
    "attention_use_n_prev_actions",
    "attention_use_n_prev_rewards",
)
"""Options of the model that count only with attention."""

MEMORY = frozenset(
    f"model/{name}" for name in ("max_seq_len", "use_lstm", "lstm_cell_size", *OF_LSTM, "use_attention", *OF_ATTENTION)
)
"""What algorithms act on whose losses take sequences."""

OWN_DISTRIBUTIONS = frozenset({"model/custom_action_dist"})
"""What algorithms act on whose losses take any distribution of actions."""

ACTOR_CRITIC = HEADS | IMAGES | MEMORY | OWN_MODELS | OWN_DISTRIBUTIONS
"""What algorithms act on that take the module of `on_policy.actor_critic`, and whose losses take sequences."""

PIPELINED = frozenset({"pipelined_sampling"})
"""What algorithms act on that sample whole train batches, and learn from each once."""


ADVICE = {
    "observation_fn": "What observation_fn would make of observations, the environment can return.",
    "policy_map_capacity": "All policies stay in memory, so policy_map_capacity would have no effect.",
}
"""What to do instead of some settings that nothing acts on, or why that is so."""


def refuse_what_has_no_effect(config: AlgorithmConfig, acts_on: frozenset[str] = frozenset()) -> None:
    """Raise ConfigError if a setting was given that the algorithm does not act on.

    Args:
        config: The settings.
        acts_on: Which of them it acts on beside those that all do.
    """
    known, model = HONOURED | acts_on, config.model
    wrong = [
        name
        for name, field in AlgorithmConfig.fields.items()
        if name not in known and not field.inert and not config.is_default(name)
    ]
    wrong += [
        f"model[{name!r}]"
        for name, field in type(model).fields.items()
        if name not in HONOURED_OF_MODELS
        and f"model/{name}" not in acts_on
        and not field.inert
        and not model.is_default(name)
    ]
    own = ("use_lstm", ()) if model.custom_model is not None else ("use_lstm", OF_LSTM)
    for needed, names in (own, ("use_attention", OF_ATTENTION)):
        if not getattr(model, needed) and f"model/{needed}" in acts_on:
            wrong += [f"model[{name!r}] without {needed}" for name in names if not model.is_default(name)]
    if wrong == ["pipelined_sampling"]:
        raise ConfigError(
            f"{config.title}: pipelined_sampling is True, but only PPO, A2C and PG sample a train batch ahead of that "
            "which they learn from; leave it at False, or take one of them"
        )
    advice = [ADVICE[name] for name in sorted(wrong) if name in ADVICE]
    if wrong:
        raise ConfigError(
            f"{config.title}: no algorithm acts on {', '.join(sorted(wrong))} yet, so the result would be another than "
            f"asked for. {' '.join(['Leave them as they are by default.', *advice])}"
        )
