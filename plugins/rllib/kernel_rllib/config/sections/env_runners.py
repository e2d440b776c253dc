"""Sampling: `config.env_runners(num_env_runners=2, rollout_fragment_length="auto")`, in 2.x `config.rollouts(...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

BatchMode = Literal["truncate_episodes", "complete_episodes"]
VectorizeMode = Literal["sync", "async", "vector_entry_point", "loop", "native", "processes", "actors"]
ObservationFilter = Literal["NoFilter", "MeanStdFilter", "ConcurrentMeanStdFilter"] | Callable[..., Any]
Merged = Literal["training_only"] | bool


def _mode_name(value: Any) -> Any:
    """Return the word for a member of gymnasium's VectorizeMode."""
    word = getattr(value, "value", value)
    return word.lower() if isinstance(word, str) else word


class EnvRunners(DictSettings):
    """Settings of the collection of experience: the number of runners, of environments, and the size of fragments."""

    section = "env_runners"

    env_runner_cls = Field[type | None](None, "The class of runners; None for the usual one.", since="2.x")
    num_env_runners = Field(
        0,
        "How many runners sample beside the learner; with 0 it samples itself.",
        older={"1.x": 2},
        range=(0, None),
    )
    create_local_env_runner = Field(
        True, "Whether the learner has a runner of its own beside others.", since="current",
        inert="it has one where there are no others",
    )  # fmt: skip
    create_env_on_local_worker = Field(
        False, "Whether the learner's own runner has environments although there are others.", since="1.x"
    )
    num_envs_per_env_runner = Field(1, "How many copies of the environment a runner steps at once.", range=(1, None))
    num_envs = Field[int | None](
        None,
        "How many copies there are in all runners together; None: as many as they have each. The same number gives the "
        "same results with any number of runners.",
        range=(1, None),
        since="current",
    )
    gym_env_vectorize_mode = Field[VectorizeMode](
        "sync",
        "How a runner steps its copies: in a loop (sync, loop), in processes (async, processes), by the "
        "environment's own vector form (vector_entry_point, native), or in actors.",
        convert=_mode_name,
        since="current",
    )
    num_cpus_per_env_runner = Field[int | float](1, "CPUs of each runner.", range=(0, None))
    num_gpus_per_env_runner = Field[int | float](0, "GPUs of each runner; may be a fraction.", range=(0, None))
    custom_resources_per_env_runner = Field[dict[str, Any]]({}, "Other resources of each runner, by name.")
    validate_env_runners_after_construction = Field(
        True, "Whether runners are asked for a sign of life first.", since="2.x", inert="they always are"
    )
    sample_timeout_s = Field[float | None](
        60.0,
        "After how long a runner's sample is late: it is said where it is, and looked whether it hangs. None: never.",
        range=(0, None),
        unit="seconds",
        since="current",
    )
    max_requests_in_flight_per_env_runner = Field(
        1, "How many requests for samples wait at a runner.", older={"2.x": 2}, range=(1, None), since="2.x"
    )
    env_to_module_connector = Field[Callable[..., Any] | None](
        None, "Makes connectors from observations to the module's inputs.", since="current"
    )
    module_to_env_connector = Field[Callable[..., Any] | None](
        None, "Makes connectors from the module's outputs to actions.", since="current"
    )
    add_default_connectors_to_env_to_module_pipeline = Field(
        True, "Whether the usual connectors follow one's own.", since="current"
    )
    add_default_connectors_to_module_to_env_pipeline = Field(
        True, "Whether the usual connectors follow one's own.", since="current"
    )
    merge_env_runner_states = Field[Merged](
        "training_only", "Whether the learner merges the states of runners' connectors, or those of training only.",
        since="current",
    )  # fmt: skip
    broadcast_env_runner_states = Field(True, "Whether merged states are sent back to runners.", since="current")
    use_env_runner_state_server = Field(
        False, "Whether runners fetch states from an actor.", since="current", inert="states are objects in the store"
    )
    env_runner_state_server_max_concurrency = Field(
        16,
        "How many runners that actor serves at once.",
        range=(1, None),
        since="current",
        inert="there is no such actor",
    )
    episode_lookback_horizon = Field(
        1, "How many steps of the fragment before an episode view reaches back.", range=(0, None), since="current"
    )
    rollout_fragment_length = Field[int | Literal["auto"]](
        200,
        "Steps of each environment in one fragment; with 'auto' as many as make up the train batch.",
        range=(1, None),
        unit="env steps",
    )
    batch_mode = Field[BatchMode](
        "truncate_episodes", "Whether fragments end where they are full, or only with an episode."
    )
    compress_observations = Field(
        False, "Whether observations in batches are compressed.", inert="batches are in shared memory as they are"
    )
    episodes_to_numpy = Field(
        True, "Whether runners return arrays rather than lists.", since="current", inert="they do"
    )
    remote_worker_envs = Field(False, "Whether each environment has a process of its own.")
    remote_env_batch_wait_ms = Field[int | float](
        0, "How long such environments are waited for once one is ready.", range=(0, None), unit="milliseconds"
    )
    pipelined_sampling = Field(
        False,
        "Whether the next train batch is sampled while this one is learned from, with the parameters from before that.",
        since="current",
    )
    sample_async = Field(
        False, "Whether runners sample on in the background.", until="2.x", since="0.8.5"
    )  # fmt: skip
    sample_collector = Field[type | None](None, "A class that collects samples; None for the usual one.", since="1.x")
    enable_connectors = Field(
        True, "Whether observations and actions pass connectors.", since="2.x", until="2.x", inert="they do"
    )
    preprocessor_pref = Field[Literal["deepmind", "rllib"] | None](
        "deepmind", "Which family of preprocessors Atari frames pass; None for none."
    )
    observation_filter = Field[ObservationFilter](
        "NoFilter",
        "What normalises observations, element by element: a name, or a function that makes a filter for a shape.",
    )
    update_worker_filter_stats = Field(True, "Whether runners' filters learn from each other.")
    use_worker_filter_stats = Field(True, "Whether the learner's filter learns from those of runners.", since="current")
    sampler_perf_stats_ema_coef = Field[float | None](
        None,
        "The weight of the newest timings in moving averages; None for plain averages.",
        range=(0, 1),
        since="2.x",
    )
    enable_tf1_exec_eagerly = Field(
        False, "Whether TensorFlow runs eagerly in runners.", since="2.x", inert="runners compute in numpy"
    )

    @fluent()
    def env_runners(
        self,
        *,
        env_runner_cls: type | None = NOT_PROVIDED,
        num_env_runners: int = NOT_PROVIDED,
        create_local_env_runner: bool = NOT_PROVIDED,
        create_env_on_local_worker: bool = NOT_PROVIDED,
        num_envs_per_env_runner: int = NOT_PROVIDED,
        num_envs: int | None = NOT_PROVIDED,
        gym_env_vectorize_mode: VectorizeMode = NOT_PROVIDED,
        num_cpus_per_env_runner: int | float = NOT_PROVIDED,
        num_gpus_per_env_runner: int | float = NOT_PROVIDED,
        custom_resources_per_env_runner: dict[str, Any] = NOT_PROVIDED,
        validate_env_runners_after_construction: bool = NOT_PROVIDED,
        sample_timeout_s: float | None = NOT_PROVIDED,
        max_requests_in_flight_per_env_runner: int = NOT_PROVIDED,
        env_to_module_connector: Callable[..., Any] | None = NOT_PROVIDED,
        module_to_env_connector: Callable[..., Any] | None = NOT_PROVIDED,
        add_default_connectors_to_env_to_module_pipeline: bool = NOT_PROVIDED,
        add_default_connectors_to_module_to_env_pipeline: bool = NOT_PROVIDED,
        merge_env_runner_states: Merged = NOT_PROVIDED,
        broadcast_env_runner_states: bool = NOT_PROVIDED,
        use_env_runner_state_server: bool = NOT_PROVIDED,
        env_runner_state_server_max_concurrency: int = NOT_PROVIDED,
        episode_lookback_horizon: int = NOT_PROVIDED,
        rollout_fragment_length: int | Literal["auto"] = NOT_PROVIDED,
        batch_mode: BatchMode = NOT_PROVIDED,
        compress_observations: bool = NOT_PROVIDED,
        episodes_to_numpy: bool = NOT_PROVIDED,
        remote_worker_envs: bool = NOT_PROVIDED,
        remote_env_batch_wait_ms: int | float = NOT_PROVIDED,
        pipelined_sampling: bool = NOT_PROVIDED,
        sample_async: bool = NOT_PROVIDED,
        sample_collector: type | None = NOT_PROVIDED,
        enable_connectors: bool = NOT_PROVIDED,
        preprocessor_pref: Literal["deepmind", "rllib"] | None = NOT_PROVIDED,
        observation_filter: ObservationFilter = NOT_PROVIDED,
        update_worker_filter_stats: bool = NOT_PROVIDED,
        use_worker_filter_stats: bool = NOT_PROVIDED,
        sampler_perf_stats_ema_coef: float | None = NOT_PROVIDED,
        enable_tf1_exec_eagerly: bool = NOT_PROVIDED,
        explore: bool = NOT_PROVIDED,
        exploration_config: dict[str, Any] = NOT_PROVIDED,
    ) -> Self:
        """Set how experience is collected; return this config."""
        return self

    @fluent()
    def rollouts(
        self,
        *,
        env_runner_cls: type | None = NOT_PROVIDED,
        num_rollout_workers: int = NOT_PROVIDED,
        num_envs_per_worker: int = NOT_PROVIDED,
        create_env_on_local_worker: bool = NOT_PROVIDED,
        sample_collector: type | None = NOT_PROVIDED,
        sample_async: bool = NOT_PROVIDED,
        enable_connectors: bool = NOT_PROVIDED,
        use_worker_filter_stats: bool = NOT_PROVIDED,
        update_worker_filter_stats: bool = NOT_PROVIDED,
        rollout_fragment_length: int | Literal["auto"] = NOT_PROVIDED,
        batch_mode: BatchMode = NOT_PROVIDED,
        remote_worker_envs: bool = NOT_PROVIDED,
        remote_env_batch_wait_ms: int | float = NOT_PROVIDED,
        validate_workers_after_construction: bool = NOT_PROVIDED,
        ignore_worker_failures: bool = NOT_PROVIDED,
        recreate_failed_workers: bool = NOT_PROVIDED,
        restart_failed_sub_environments: bool = NOT_PROVIDED,
        num_consecutive_worker_failures_tolerance: int = NOT_PROVIDED,
        worker_health_probe_timeout_s: int | float = NOT_PROVIDED,
        worker_restore_timeout_s: int | float = NOT_PROVIDED,
        no_done_at_end: bool = NOT_PROVIDED,
        preprocessor_pref: Literal["deepmind", "rllib"] | None = NOT_PROVIDED,
        observation_filter: ObservationFilter = NOT_PROVIDED,
        synchronize_filter: bool = NOT_PROVIDED,
        compress_observations: bool = NOT_PROVIDED,
        enable_tf1_exec_eagerly: bool = NOT_PROVIDED,
        sampler_perf_stats_ema_coef: float | None = NOT_PROVIDED,
        horizon: int | None = NOT_PROVIDED,
        soft_horizon: bool = NOT_PROVIDED,
    ) -> Self:
        """Set what `env_runners()` sets, by the names of RLlib 2.0 to 2.9; return this config."""
        return self
