"""The names that settings had: one table for all generations of the API.

A row has the name of today, the key in dicts of 0.8.5, and what it became in 1.x and in 2.0 to 2.9: an empty cell says
that it stayed as it was, "-" that it was no key any more. What has kept its name isn't here. The conversions below are
for keys that said something in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.config.name_table import Conversion, Name
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID, PolicySpec, as_tuples, default_policy_mapping
from kernel_rllib.config.replay_config import PRIORITIZED, UNIFORM, read_prioritized
from kernel_rllib.errors import ConfigError, UnknownSettingError
from kernel_rllib.nearest import did_you_mean

Given = Mapping[str, Any]

NAMES = (
    Name("num_env_runners", "num_workers", "", "num_rollout_workers"),
    Name("num_envs_per_env_runner", "num_envs_per_worker"),
    Name("num_cpus_per_env_runner", "num_cpus_per_worker"),
    Name("num_gpus_per_env_runner", "num_gpus_per_worker"),
    Name("custom_resources_per_env_runner", "custom_resources_per_worker"),
    Name("num_cpus_for_main_process", "num_cpus_for_driver", "", "num_cpus_for_local_worker"),
    Name("num_gpus_per_learner", "num_gpus", also=("num_gpus_per_learner_worker",)),
    Name("num_learners", "num_learner_workers"),
    Name("num_cpus_per_learner", "num_cpus_per_learner_worker"),
    Name("rollout_fragment_length", also=("sample_batch_size",)),
    Name("validate_env_runners_after_construction", "validate_workers_after_construction"),
    Name("max_requests_in_flight_per_env_runner", "max_requests_in_flight_per_sampler_worker"),
    Name("create_env_on_local_worker", "create_env_on_driver", "", "", "create_env_on_driver"),
    Name("update_worker_filter_stats", "synchronize_filters", also=("synchronize_filter",)),
    Name("minibatch_size", "sgd_minibatch_size"),
    Name("num_epochs", "num_sgd_iter"),
    Name("shuffle_batch_per_epoch", "shuffle_sequences"),
    Name("num_steps_sampled_before_learning_starts", "learning_starts", "", "num_steps_sampled_before_learning_starts"),
    Name("grad_clip", also=("grad_norm_clipping",)),
    Name("ignore_env_runner_failures", "ignore_worker_failures"),
    Name("restart_failed_env_runners", "", "recreate_failed_workers", also=("recreate_failed_env_runners",)),
    Name("max_num_env_runner_restarts", "max_num_worker_restarts"),
    Name("delay_between_env_runner_restarts_s", "delay_between_worker_restarts_s"),
    Name("num_consecutive_env_runner_failures_tolerance", "num_consecutive_worker_failures_tolerance"),
    Name("env_runner_health_probe_timeout_s", "worker_health_probe_timeout_s"),
    Name("env_runner_restore_timeout_s", "worker_restore_timeout_s"),
    Name("evaluation_num_env_runners", "evaluation_num_workers"),
    Name("custom_evaluation_function", "custom_eval_function", "", "", "custom_eval_function"),
    Name("metrics_episode_collection_timeout_s", "collect_metrics_timeout", "metrics_episode_collection_timeout_s"),
    Name("metrics_num_episodes_for_smoothing", "metrics_smoothing_episodes", "metrics_num_episodes_for_smoothing"),
    Name("min_time_s_per_iteration", "min_iter_time_s", "min_time_s_per_reporting", "min_time_s_per_iteration"),
    Name(
        "min_train_timesteps_per_iteration",
        "min_train_timesteps_per_reporting",
        "",
        "min_train_timesteps_per_iteration",
    ),
    Name(
        "min_sample_timesteps_per_iteration",
        "timesteps_per_iteration",
        "min_sample_timesteps_per_reporting",
        "min_sample_timesteps_per_iteration",
    ),
    Name("render_env", "monitor", "render_env", also=("record_env",)),
    Name("extra_python_environs_for_driver", "extra_python_environ_for_driver", "extra_python_environs_for_driver"),
    Name("extra_python_environs_for_worker", "extra_python_environ_for_worker", "extra_python_environs_for_worker"),
    Name("fake_sampler", "_fake_sampler", "fake_sampler"),
    # Names that attributes can't have, or don't: keys of today's dicts as well.
    Name("lambda_", "lambda", "", "", "lambda"),
    Name("input_", "input", "", "", "input"),
    Name("callbacks_class", "callbacks", "", "", "callbacks"),
    Name("framework_str", "framework", "", "", "framework"),
    # What was a key of its own, and is a part of another setting today.
    Name("replay_buffer_config/capacity", "buffer_size", "", "-"),
    Name("replay_buffer_config/alpha", "prioritized_replay_alpha", "", "-"),
    Name("replay_buffer_config/beta", "prioritized_replay_beta", "", "-"),
    Name("replay_buffer_config/eps", "prioritized_replay_eps", "", "-"),
    Name("replay_buffer_config/final_beta", "final_prioritized_replay_beta", "", "-"),
    Name("replay_buffer_config/beta_annealing_timesteps", "prioritized_replay_beta_annealing_timesteps", "", "-"),
    Name("replay_buffer_config/worker_side_prioritization", "worker_side_prioritization", "", "-"),
    Name("replay_buffer_config/replay_sequence_length", "", "replay_sequence_length", "-"),
    Name("replay_buffer_config/replay_mode", "", "replay_mode", "-"),
    Name("model/vf_share_layers", also=("vf_share_layers",)),
    Name("exploration_config/final_epsilon", also=("exploration_final_eps",)),
    Name("exploration_config/initial_epsilon", also=("exploration_initial_eps",)),
    Name("exploration_config/final_scale", also=("exploration_final_scale",)),
)


# -- keys that said something in another way -------------------------------------------------------------------------


def _read_framework(given: Given, everything: Given) -> dict[str, Any]:
    torch, eager = given.get("use_pytorch"), given.get("eager")
    if torch and eager:
        raise ConfigError(
            "use_pytorch=True and eager=True ask for two libraries, PyTorch and TensorFlow; give one of them"
        )
    if torch or eager:
        return {"framework_str": "torch" if torch else "tf2"}
    is_said = "framework" in everything or "framework_str" in everything
    return {} if is_said else {"framework_str": "auto"}


def _write_framework(config: Any) -> dict[str, Any]:
    return {"use_pytorch": config.framework_str == "torch", "eager": config.framework_str == "tf2"}


def _read_episodes(given: Given, everything: Given) -> dict[str, Any]:
    episodes = given.get("evaluation_num_episodes")
    return {} if episodes is None else {"evaluation_duration": episodes, "evaluation_duration_unit": "episodes"}


def _counts_episodes(config: Any) -> bool:
    return config.evaluation_duration_unit == "episodes" and isinstance(config.evaluation_duration, int)


def _read_estimators(given: Given, everything: Given) -> dict[str, Any]:
    names = given.get("input_evaluation")
    if names is None:
        return {}
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"input_evaluation is {names!r}, but must be a list of names: 'is', 'wis', 'simulation'")
    return {"off_policy_estimation_methods": {name: {"type": name} for name in names}}


def _write_estimators(config: Any) -> dict[str, Any]:
    return {"input_evaluation": list(config.off_policy_estimation_methods)} if _has_named_estimators(config) else {}


def _has_named_estimators(config: Any) -> bool:
    methods = config.off_policy_estimation_methods
    return isinstance(methods, dict) and all(options == {"type": name} for name, options in methods.items())


_MULTIAGENT = {
    "policies": "policies",
    "policy_graphs": "policies",
    "policy_mapping_fn": "policy_mapping_fn",
    "policies_to_train": "policies_to_train",
    "observation_fn": "observation_fn",
    "count_steps_by": "count_steps_by",
    "policy_map_capacity": "policy_map_capacity",
    "policy_map_cache": "policy_map_cache",
    "policy_states_are_swappable": "policy_states_are_swappable",
    "replay_mode": "replay_buffer_config/replay_mode",
}


def _read_multiagent(given: Given, everything: Given) -> dict[str, Any]:
    inside = given.get("multiagent")
    if inside is None:
        return {}
    if not isinstance(inside, Mapping):
        raise ConfigError(f"multiagent is {inside!r}, but must be a dict of {', '.join(_MULTIAGENT)}")
    for key in inside:
        if key not in _MULTIAGENT:
            raise UnknownSettingError(f"multiagent has no setting {key!r}{did_you_mean(str(key), _MULTIAGENT)}")
    return {_MULTIAGENT[key]: value for key, value in inside.items() if key != "replay_mode" or value != "independent"}


def _write_multiagent(config: Any) -> dict[str, Any]:
    policies, mapping = config.policies, config.policy_mapping_fn
    return {
        "multiagent": {
            "policies": {} if policies == {DEFAULT_POLICY_ID: PolicySpec()} else as_tuples(policies),
            "policy_mapping_fn": None if mapping is default_policy_mapping else mapping,
            "policies_to_train": config.policies_to_train,
        }
    }


def _schedule(setting: str) -> Conversion:
    """Return the conversion of `lr` and `lr_schedule`, which are one setting today."""
    key = f"{setting}_schedule"

    def is_scheduled(config: Any) -> bool:
        value = getattr(config, setting)
        return isinstance(value, list) or (isinstance(value, dict) and "type" in value)

    def write(config: Any) -> dict[str, Any]:
        value = getattr(config, setting)
        if not is_scheduled(config):
            return {}
        return {setting: value[0][1], key: value} if isinstance(value, list) else {key: value}

    return Conversion(
        (key,),
        lambda given, everything: {setting: given[key]} if given.get(key) is not None else {},
        write=write,
        covers=(setting,),
        complete=is_scheduled,
        generations=("0.8.5", "1.x", "2.x"),
        wins=True,
    )


def _read_annealing(given: Given, everything: Given) -> dict[str, Any]:
    total = given.get("schedule_max_timesteps")
    found: dict[str, Any] = {}
    for key, path in (
        ("exploration_fraction", "exploration_config/epsilon_timesteps"),
        ("beta_annealing_fraction", "replay_buffer_config/beta_annealing_timesteps"),
    ):
        if given.get(key) is not None:
            if total is None:
                raise ConfigError(
                    f"{key}={given[key]!r} is a part of schedule_max_timesteps, which is missing; give {path}"
                )
            found[path] = int(given[key] * total)
    return found


def _read_exploration(given: Given, everything: Given) -> dict[str, Any]:
    if given.get("soft_q"):
        temperature = max(given.get("softmax_temp", 1.0), 1e-5)
        return {"exploration_config": {"type": "SoftQ", "temperature": temperature}}
    if given.get("parameter_noise"):
        return {"exploration_config": {"type": "ParameterNoise"}}
    return {"exploration_config/type": "PerWorkerEpsilonGreedy"} if given.get("per_worker_exploration") else {}


def _read_stack(given: Given, everything: Given) -> dict[str, Any]:
    flags = [bool(value) for value in given.values() if value is not None]
    if not flags:
        return {}
    return {"enable_rl_module_and_learner": any(flags), "enable_env_runner_and_connector_v2": any(flags)}


def _read_truncation(given: Given, everything: Given) -> dict[str, Any]:
    return {"batch_mode": "truncate_episodes" if given["truncate_episodes"] else "complete_episodes"} if given else {}


def _has_known_buffer(config: Any) -> bool:
    return getattr(config.replay_buffer_config, "type", None) in (UNIFORM, PRIORITIZED)


CONVERSIONS = (
    Conversion(
        ("use_pytorch", "eager"),
        _read_framework,
        write=_write_framework,
        covers=("framework_str",),
        complete=lambda config: config.framework_str in ("auto", "torch", "tf2"),
        generations=("0.8.5",),
    ),
    Conversion(
        ("evaluation_num_episodes",),
        _read_episodes,
        write=lambda config: (
            {"evaluation_num_episodes": config.evaluation_duration} if _counts_episodes(config) else {}
        ),
        covers=("evaluation_duration",),
        complete=_counts_episodes,
        generations=("0.8.5",),
    ),
    Conversion(
        ("input_evaluation",),
        _read_estimators,
        write=_write_estimators,
        covers=("off_policy_estimation_methods",),
        complete=_has_named_estimators,
        generations=("0.8.5", "1.x"),
    ),
    Conversion(
        ("multiagent",),
        _read_multiagent,
        write=_write_multiagent,
        covers=("policies", "policy_mapping_fn", "policies_to_train"),
        generations=("0.8.5", "1.x"),
    ),
    Conversion(
        ("prioritized_replay",),
        lambda given, everything: {
            f"replay_buffer_config/{key}": value for key, value in read_prioritized(given, {}).items()
        },
        write=lambda config: (
            {"prioritized_replay": config.replay_buffer_config.is_prioritized} if _has_known_buffer(config) else {}
        ),
        covers=("replay_buffer_config/type",),
        complete=_has_known_buffer,
        generations=("0.8.5", "1.x"),
    ),
    _schedule("lr"),
    _schedule("entropy_coeff"),
    Conversion(("schedule_max_timesteps", "exploration_fraction", "beta_annealing_fraction"), _read_annealing),
    Conversion(("soft_q", "softmax_temp", "parameter_noise", "per_worker_exploration"), _read_exploration, wins=True),
    Conversion(("_enable_new_api_stack", "_enable_rl_module_api", "_enable_learner_api"), _read_stack),
    Conversion(("truncate_episodes",), _read_truncation),
)

GONE = {
    "gpu": "num_gpus=1 gives the learner a GPU",
    "gpu_fraction": "num_gpus takes a fraction",
    "use_gpu_for_workers": "num_gpus_per_worker=1 gives each runner a GPU",
    "sample_timeout": "it is sample_timeout_s, in seconds",
    "replay_batch_size": "train_batch_size says how many steps are sampled from the buffer",
    "custom_async_evaluation_function": "custom_evaluation_function is called in either case",
    # what other libraries call it
    "learning_rate": "it is lr",
    "ent_coef": "it is entropy_coeff",
    "clip_range": "it is clip_param",
    "gae_lambda": "it is lambda_",
    "n_epochs": "it is num_epochs",
    "batch_size": "it is train_batch_size, and minibatch_size for what one update learns from",
}
"""Names that are gone for good, and what there is instead."""
