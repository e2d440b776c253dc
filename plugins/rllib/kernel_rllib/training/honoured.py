"""The common settings that algorithms act on. A setting that an algorithm does not act on is refused, not ignored.

Settings that an algorithm declares itself are its own to act on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.sections.offline_data import OfflineData
from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.training.registry import ALGORITHMS, algorithm_class

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
    "custom_evaluation_function",
    "always_attach_evaluation_results",
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
    "input_",
    "input_config",
    "actions_in_input_normalized",
    "shuffle_buffer_size",
    "output",
    "output_config",
    "output_compress_columns",
    "output_max_file_size",
    "off_policy_estimation_methods",
    "ope_split_batch_by_episode",
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
"""Settings of algorithms whose networks have dense layers after the encoder."""

IMAGES = frozenset({"model/conv_filters", "model/conv_activation"})
"""Settings of algorithms whose networks have convolutions. Others refuse observations that are images."""

OWN_MODELS = frozenset({"model/custom_model", "model/custom_model_config", "rl_module_spec"})
"""Settings of algorithms that take models of the user's own."""

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
"""Settings of algorithms whose losses take sequences."""

OWN_DISTRIBUTIONS = frozenset({"model/custom_action_dist"})
"""Settings of algorithms whose losses take any distribution of actions."""

ACTOR_CRITIC = HEADS | IMAGES | MEMORY | OWN_MODELS | OWN_DISTRIBUTIONS
"""Settings of algorithms with the module of `on_policy.actor_critic`, whose losses take sequences."""

PIPELINED = frozenset({"pipelined_sampling"})
"""Settings of algorithms that sample whole train batches, and learn from each once."""

ONE_PASS = dict.fromkeys(
    ("num_epochs", "minibatch_size", "shuffle_batch_per_epoch"), "it learns from each batch once, as a whole"
)
"""Settings without effect on algorithms that make one update with each batch, and the reasons."""

ONE_HEAD = {"model/vf_share_layers": "there is no value of states beside what it learns"}
"""Settings without effect on algorithms that have no value function beside the policy, and the reasons."""

ADVICE = {
    "create_env_on_local_worker": (
        "With runners, the learner's own has no environments; workers.foreach_env() reaches those of runners."
    ),
    "observation_fn": "What observation_fn would make of observations, the environment can return.",
    "policy_map_capacity": "All policies stay in memory, so policy_map_capacity would have no effect.",
}
"""Advice for settings that no algorithm acts on: what to do instead, or why that is so."""

_OFFLINE = (
    "Recorded experience is read by input_ and written by output: folders and files of JSON lines, or functions that "
    "return an InputReader or an OutputWriter of your own, which may do it otherwise (docs/rllib-offline.md)."
)
_OF_OFFLINE_DATA = OfflineData.fields.keys() | {"off_policy_estimation_methods"}
_AS_GIVEN = {
    "input_": "input",
    "off_policy_estimation_methods": "off_policy_estimation_methods (input_evaluation)",
}
"""Settings that programs mostly give under other names."""

_MODELS_OF_USERS = ("custom_model", "custom_preprocessor", "custom_action_dist")


def refuse_what_has_no_effect(
    config: AlgorithmConfig, acts_on: frozenset[str] = frozenset(), without: Mapping[str, str] | None = None
) -> None:
    """Raise ConfigError if a setting was given that the algorithm does not act on.

    Args:
        config: The settings.
        acts_on: The settings that it acts on beside those that all algorithms do; with "model", unknown options of the
            model too.
        without: The settings that it does not act on, though others do, or though an algorithm that it derives from
            declares them, each with the reason.
    """
    if "model" not in acts_on:
        _refuse_unknown_options(config)
    without = {name: reason for name, reason in (without or {}).items() if not _estimates_by(name, config)}
    wrong = [name for name in _given(config) if not _is_honoured(name, config, acts_on)]
    wrong += _options_without_memory(config, acts_on)
    given = [*_given(config), *_inherited(config, without)]
    reasons = {name: without[name] for name in given if name in without}
    said = [f"{_shown(name)} has no effect on {config.algorithm}: {reason}" for name, reason in reasons.items()]
    said += _not_acted_on(config, sorted(set(wrong) - reasons.keys()))
    if said:
        advice = [ADVICE[name] for name in sorted(wrong) if name in ADVICE]
        advice += [_OFFLINE] if _OF_OFFLINE_DATA & set(wrong) else []
        raise ConfigError(
            f"{config.title}: {'; '.join(said)}. So the result would be another than asked for. "
            f"{' '.join(['Leave them as they are by default.', *advice])}"
        )


def _estimates_by(name: str, config: AlgorithmConfig) -> bool:
    """Return whether estimators go by a setting, though learning does not."""
    return name == "gamma" and config.is_set("off_policy_estimation_methods") and config.input_ != "sampler"


def _given(config: AlgorithmConfig) -> Iterator[str]:
    """Yield the common settings that are not what they are by default, options of the model as "model/dim"."""
    for name, field in AlgorithmConfig.fields.items():
        if not field.inert and name != "model" and not config.is_default(name):
            yield name
    for name, field in type(config.model).fields.items():
        if not field.inert and not config.model.is_default(name):
            yield f"model/{name}"


def _inherited(config: AlgorithmConfig, without: Mapping[str, str]) -> Iterator[str]:
    """Yield what is in `without`, is no common setting, and is not what it is by default."""
    for name in type(config).fields.keys() & without.keys() - AlgorithmConfig.fields.keys():
        if not config.is_default(name):
            yield name


def _is_honoured(name: str, config: AlgorithmConfig, acts_on: frozenset[str]) -> bool:
    if name == "create_env_on_local_worker" and not config.num_env_runners:
        return True  # Without runners, the local worker has environments anyway.
    if name == "off_policy_estimation_methods" and not config.off_policy_estimation_methods:
        return True  # No estimator is made.
    part, _, option = name.rpartition("/")
    return name in acts_on or (option in HONOURED_OF_MODELS if part else name in HONOURED)


def _options_without_memory(config: AlgorithmConfig, acts_on: frozenset[str]) -> list[str]:
    """Return the options of memories that the model does not have."""
    model, found = config.model, []
    own = ("use_lstm", ()) if model.custom_model is not None else ("use_lstm", OF_LSTM)
    for needed, names in (own, ("use_attention", OF_ATTENTION)):
        if not getattr(model, needed) and f"model/{needed}" in acts_on:
            found += [f"model/{name} without {needed}" for name in names if not model.is_default(name)]
    return found


def _not_acted_on(config: AlgorithmConfig, wrong: list[str]) -> Iterator[str]:
    """Yield a sentence on what this algorithm does not act on and others do, and one on what none acts on."""
    by_others: dict[tuple[str, ...], list[str]] = {}
    for name in wrong:
        by_others.setdefault(_acting_on(name), []).append(_shown(name))
    for others, names in by_others.items():
        if others:
            name = config.algorithm or getattr(config.algo_class, "__name__", config.title)
            yield f"{name} does not act on {', '.join(names)}, as {', '.join(others)} {'do' if others[1:] else 'does'}"
        else:
            yield f"no algorithm acts on {', '.join(names)} yet"


def _acting_on(name: str) -> tuple[str, ...]:
    return tuple(each for each in sorted(ALGORITHMS) if name in algorithm_class(each).acts_on)


def _refuse_unknown_options(config: AlgorithmConfig) -> None:
    """Raise ConfigError for what is no option of a model, unless something of the user's own may read it."""
    model = config.model
    if config.rl_module_spec is not None or any(getattr(model, name) is not None for name in _MODELS_OF_USERS):
        return
    for name in model.own_names():
        raise ConfigError(
            f"{model.title} has no option {name!r}{did_you_mean(name, type(model).names.by_key, '; leave it out')}. "
            "Options of any name are for models of your own, in custom_model_config"
        )


def _shown(name: str) -> str:
    part, _, option = name.partition("/")
    if not option:
        return _AS_GIVEN.get(name, name)
    option, _, rest = option.partition(" ")
    return f"{part}[{option!r}]{f' {rest}' if rest else ''}"
