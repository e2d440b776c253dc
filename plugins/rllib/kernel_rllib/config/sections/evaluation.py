"""Evaluation during training: `config.evaluation(evaluation_interval=5, evaluation_duration=20)`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED, is_deprecated_value
from kernel_rllib.config.settings import Settings
from kernel_rllib.config.settings_dict import DictSettings
from kernel_rllib.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

DurationUnit = Literal["episodes", "timesteps"]


def _unset_flag(value: Any) -> Any:
    return False if is_deprecated_value(value) else value


def _function(value: Any) -> Any:
    """Return the function of a dotted path, as files of settings name it, and anything else as it is."""
    if not isinstance(value, str):
        return value
    module, _, name = value.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ConfigError(
            f"custom_evaluation_function is {value!r}, and there is no function at that path: give the function "
            "itself, or the path of one that can be imported, such as my_package.evaluating.evaluate"
        ) from None


class Evaluation(DictSettings):
    """Settings of the evaluation of the policy: when, how long, and with which settings of its own."""

    section = "evaluation"

    evaluation_interval = Field[int | None](
        None, "After how many iterations each evaluation comes; 0 or None: never.", range=(0, None), unit="iterations"
    )
    evaluation_duration = Field[int | Literal["auto"]](
        10,
        "How long an evaluation is; 'auto': as long as the training that it runs beside.",
        range=(1, None),
        unit="in evaluation_duration_unit",
    )
    evaluation_duration_unit = Field[DurationUnit](
        "episodes", "Whether it counts episodes, exactly, or env steps, roughly.", since="1.x"
    )
    evaluation_auto_duration_min_env_steps_per_sample = Field(
        100, "The least that 'auto' asks of a runner at once.", range=(1, None), unit="env steps", since="current"
    )
    evaluation_auto_duration_max_env_steps_per_sample = Field(
        2000, "The most that 'auto' asks of a runner at once.", range=(1, None), unit="env steps", since="current"
    )
    evaluation_sample_timeout_s = Field[int | float](
        120.0,
        "How long runners are waited for; then a warning says what to do.",
        older={"2.x": 180.0},
        range=(0, None),
        unit="seconds",
        since="2.x",
    )
    evaluation_parallel_to_training = Field(
        False, "Whether training goes on meanwhile; results are then one iteration late.", since="1.x"
    )
    evaluation_unhealthy_workers_timeout_s = Field[int | float](
        0.0, "How long to wait for a runner where all are lost.", range=(0, None), unit="seconds", since="current",
        inert="runners that are lost are replaced when they are missed",
    )  # fmt: skip
    evaluation_error_after_n_consecutive_skips = Field[int | None](
        None, "How many evaluations in a row may fail for want of runners; None: any.", range=(1, None), since="current"
    )
    evaluation_force_reset_envs_before_iteration = Field(
        True, "Whether episodes begin anew with each evaluation.", since="current"
    )
    evaluation_config = Field[dict[str, Any] | Settings | None](
        None,
        "Settings that are others in evaluations: a dict, or a whole config.",
        older={"1.x": {}},
        merge=True,
    )
    evaluation_num_env_runners = Field(
        0, "How many runners evaluate beside the learner; with 0 it does so itself.", range=(0, None)
    )
    custom_evaluation_function = Field[Callable[..., Any] | None](
        None,
        "Called as (algorithm, runners), returns the metrics; the runners have the newest weights. In files: its path.",
        convert=_function,
    )
    off_policy_estimation_methods = Field[dict[str, Any]](
        {},
        "Estimators of the policy's value on recorded data: {name: {'type': class or name, ...}}.",
        older={"1.x": {"is": {"type": "is"}, "wis": {"type": "wis"}}},
    )
    ope_split_batch_by_episode = Field(True, "Whether these see one episode at a time.", since="2.x")
    always_attach_evaluation_results = Field(
        False, "Whether the last evaluation is in each result.", convert=_unset_flag, since="1.x", until="2.x"
    )
    enable_async_evaluation = Field(
        False,
        "Whether runners evaluate on without waiting for each other.",
        convert=_unset_flag,
        since="2.x",
        until="2.x",
        inert="none that is late or dies holds up the others",
    )
    in_evaluation = Field(False, "Whether this is the config of runners that evaluate: set by the algorithm.")
    sync_filters_on_rollout_workers_timeout_s = Field[int | float](
        10.0, "How long runners have to take over filters.", older={"2.x": 60.0}, range=(0, None), unit="seconds",
        since="2.x", inert="what they learned comes with samples",
    )  # fmt: skip
    offline_evaluation_interval = Field[int | None](
        None, "After how many iterations each evaluation on recorded data comes; 0 or None: never.", range=(0, None),
        unit="iterations", since="current",
    )  # fmt: skip
    offline_evaluation_duration = Field(1, "How many batches such an evaluation has.", range=(1, None), since="current")
    offline_evaluation_parallel_to_training = Field(False, "Whether training goes on meanwhile.", since="current")
    num_offline_eval_runners = Field(0, "How many runners evaluate on recorded data.", range=(0, None), since="current")
    offline_evaluation_type = Field[str | Callable[..., Any]](
        "eval_loss", "What is evaluated on it: the loss, or importance sampling ('is', 'pdis').", since="current"
    )
    offline_eval_runner_class = Field[type | None](
        None, "A class of such runners; None for the usual one.", since="current"
    )
    offline_loss_for_module_fn = Field[Callable[..., Any] | None](
        None, "A loss for it; None: that of training.", since="current"
    )
    offline_eval_batch_size_per_runner = Field(
        256, "Steps of a batch.", range=(1, None), unit="env steps", since="current"
    )
    dataset_num_iters_per_eval_runner = Field[int | None](
        1, "Batches for each such runner; None: all of its data.", range=(1, None), since="current"
    )
    offline_eval_rl_module_inference_only = Field(
        False, "Whether such runners have no value functions.", since="current"
    )
    num_cpus_per_offline_eval_runner = Field[int | float](1, "CPUs of such a runner.", range=(0, None), since="current")
    num_gpus_per_offline_eval_runner = Field[int | float](0, "GPUs of such a runner.", range=(0, None), since="current")
    custom_resources_per_offline_eval_runner = Field[dict[str, Any]](
        {}, "Other resources of such a runner.", since="current"
    )
    offline_evaluation_timeout_s = Field[int | float](
        120.0, "How long such runners are waited for.", range=(0, None), unit="seconds", since="current"
    )
    max_requests_in_flight_per_offline_eval_runner = Field(
        1, "How many requests wait at one.", range=(1, None), since="current"
    )
    broadcast_offline_eval_runner_states = Field(False, "Whether their states are merged.", since="current")
    validate_offline_eval_runners_after_construction = Field(
        True, "Whether they are asked for a sign of life first.", since="current"
    )
    restart_failed_offline_eval_runners = Field(True, "Whether lost ones are replaced.", since="current")
    ignore_offline_eval_runner_failures = Field(False, "Whether the others go on.", since="current")
    max_num_offline_eval_runner_restarts = Field(
        1000, "How many new ones there may be.", range=(0, None), since="current"
    )
    offline_eval_runner_health_probe_timeout_s = Field[int | float](
        30.0, "How long one has to give a sign of life.", range=(0, None), unit="seconds", since="current"
    )
    offline_eval_runner_restore_timeout_s = Field[int | float](
        1800.0, "How long a new one has to be ready.", range=(0, None), unit="seconds", since="current"
    )

    @fluent(dataset_num_iters_per_offline_eval_runner="dataset_num_iters_per_eval_runner")
    def evaluation(
        self,
        *,
        evaluation_interval: int | None = NOT_PROVIDED,
        evaluation_duration: int | Literal["auto"] = NOT_PROVIDED,
        evaluation_duration_unit: DurationUnit = NOT_PROVIDED,
        evaluation_auto_duration_min_env_steps_per_sample: int = NOT_PROVIDED,
        evaluation_auto_duration_max_env_steps_per_sample: int = NOT_PROVIDED,
        evaluation_sample_timeout_s: int | float = NOT_PROVIDED,
        evaluation_parallel_to_training: bool = NOT_PROVIDED,
        evaluation_unhealthy_workers_timeout_s: int | float = NOT_PROVIDED,
        evaluation_error_after_n_consecutive_skips: int | None = NOT_PROVIDED,
        evaluation_force_reset_envs_before_iteration: bool = NOT_PROVIDED,
        evaluation_config: Mapping[str, Any] | Settings | None = NOT_PROVIDED,
        off_policy_estimation_methods: dict[str, Any] = NOT_PROVIDED,
        ope_split_batch_by_episode: bool = NOT_PROVIDED,
        evaluation_num_env_runners: int = NOT_PROVIDED,
        custom_evaluation_function: Callable[..., Any] | None = NOT_PROVIDED,
        sync_filters_on_rollout_workers_timeout_s: int | float = NOT_PROVIDED,
        in_evaluation: bool = NOT_PROVIDED,
        offline_evaluation_interval: int | None = NOT_PROVIDED,
        offline_evaluation_duration: int = NOT_PROVIDED,
        offline_evaluation_parallel_to_training: bool = NOT_PROVIDED,
        num_offline_eval_runners: int = NOT_PROVIDED,
        offline_evaluation_type: str | Callable[..., Any] = NOT_PROVIDED,
        offline_eval_runner_class: type | None = NOT_PROVIDED,
        offline_loss_for_module_fn: Callable[..., Any] | None = NOT_PROVIDED,
        offline_eval_batch_size_per_runner: int = NOT_PROVIDED,
        dataset_num_iters_per_offline_eval_runner: int | None = NOT_PROVIDED,
        offline_eval_rl_module_inference_only: bool = NOT_PROVIDED,
        num_cpus_per_offline_eval_runner: int | float = NOT_PROVIDED,
        num_gpus_per_offline_eval_runner: int | float = NOT_PROVIDED,
        custom_resources_per_offline_eval_runner: dict[str, Any] = NOT_PROVIDED,
        offline_evaluation_timeout_s: int | float = NOT_PROVIDED,
        max_requests_in_flight_per_offline_eval_runner: int = NOT_PROVIDED,
        broadcast_offline_eval_runner_states: bool = NOT_PROVIDED,
        validate_offline_eval_runners_after_construction: bool = NOT_PROVIDED,
        restart_failed_offline_eval_runners: bool = NOT_PROVIDED,
        ignore_offline_eval_runner_failures: bool = NOT_PROVIDED,
        max_num_offline_eval_runner_restarts: int = NOT_PROVIDED,
        offline_eval_runner_health_probe_timeout_s: int | float = NOT_PROVIDED,
        offline_eval_runner_restore_timeout_s: int | float = NOT_PROVIDED,
        always_attach_evaluation_results: bool = NOT_PROVIDED,
        enable_async_evaluation: bool = NOT_PROVIDED,
        evaluation_num_workers: int = NOT_PROVIDED,
        evaluation_num_episodes: int = NOT_PROVIDED,
    ) -> Self:
        """Set when, how long and with which settings the policy is evaluated; return this config."""
        return self
