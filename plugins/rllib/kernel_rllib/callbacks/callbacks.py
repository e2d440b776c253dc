"""The classes that callbacks are derived from. Their methods do nothing; a run calls those that a class has of its own.

A method gets the arguments that it names, of those that its event has (`EVENTS`); with `**kwargs` it gets all. So a
method may have the parameters of any generation: `(worker, base_env, policies, episode, **kwargs)` as in 0.8.5, or
`(*, episode, env_runner, metrics_logger, env, env_index, rl_module, **kwargs)` as today.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_RUNNER = ("env_runner", "worker", "metrics_logger", "env", "base_env", "rl_module", "policies")
_EPISODE = (*_RUNNER, "episode", "env_index", "prev_episode_chunks")
_ALGORITHM = ("algorithm", "trainer", "metrics_logger")

EVENTS: Mapping[str, tuple[str, ...]] = {
    "on_algorithm_init": _ALGORITHM,
    "on_train_result": (*_ALGORITHM, "result"),
    "on_evaluate_start": _ALGORITHM,
    "on_evaluate_end": (*_ALGORITHM, "evaluation_metrics"),
    "on_env_runners_recreated": (*_ALGORITHM, "env_runner_group", "env_runner_indices", "is_evaluation"),
    "on_workers_recreated": (*_ALGORITHM, "worker_set", "worker_ids", "is_evaluation"),
    "on_checkpoint_loaded": _ALGORITHM,
    "on_learn_on_batch": ("policy", "train_batch", "result"),
    "on_postprocess_trajectory": (
        "worker", "episode", "agent_id", "policy_id", "policies", "postprocessed_batch", "original_batches",
    ),
    "on_environment_created": (*_RUNNER, "env_context"),
    "on_sub_environment_created": ("worker", "sub_environment", "env_context", "env_index"),
    "on_episode_created": _EPISODE,
    "on_episode_start": _EPISODE,
    "on_episode_step": _EPISODE,
    "on_episode_end": _EPISODE,
    "on_sample_end": (*_RUNNER, "samples"),
}  # fmt: skip
"""The arguments that methods may name, by event."""

IN_RUNNERS = (
    "on_environment_created",
    "on_sub_environment_created",
    "on_episode_created",
    "on_episode_start",
    "on_episode_step",
    "on_episode_end",
    "on_sample_end",
)
"""The events of runners: their callbacks are called where the runner is, by an object of its own in each."""


class RLlibCallback:
    """Receives the events of an algorithm's training. Derive from it, and write the methods that you need.

    Each process has an object of its own: the algorithm, for its events, and each runner, for those of `IN_RUNNERS`.
    A callback writes its own metrics into `episode.custom_metrics`, or to the `metrics_logger`.
    """

    def on_algorithm_init(self, *args: Any, **kwargs: Any) -> None:
        """Be called when the algorithm has been built."""

    def on_train_result(self, *args: Any, **kwargs: Any) -> None:
        """Be called with the `result` of each iteration, which may be changed."""

    def on_evaluate_start(self, *args: Any, **kwargs: Any) -> None:
        """Be called before an evaluation."""

    def on_evaluate_end(self, *args: Any, **kwargs: Any) -> None:
        """Be called with the `evaluation_metrics` of an evaluation, which may be changed."""

    def on_env_runners_recreated(self, *args: Any, **kwargs: Any) -> None:
        """Be called when runners have taken the places of lost ones, with their numbers, `env_runner_indices`."""

    def on_workers_recreated(self, *args: Any, **kwargs: Any) -> None:
        """Be called when runners have taken the places of lost ones, with their numbers, `worker_ids`."""

    def on_checkpoint_loaded(self, *args: Any, **kwargs: Any) -> None:
        """Be called when the algorithm goes on from a checkpoint."""

    def on_learn_on_batch(self, *args: Any, **kwargs: Any) -> None:
        """Be called before each step of the learner with its `train_batch`; what goes into `result` is reported."""

    def on_postprocess_trajectory(self, *args: Any, **kwargs: Any) -> None:
        """Be called with each piece of an episode, `postprocessed_batch`; what is changed in it is learned from."""

    def on_environment_created(self, *args: Any, **kwargs: Any) -> None:
        """Be called once in each runner when its environments are there."""

    def on_sub_environment_created(self, *args: Any, **kwargs: Any) -> None:
        """Be called with each environment of a runner, `sub_environment`."""

    def on_episode_created(self, *args: Any, **kwargs: Any) -> None:
        """Be called with each new `episode`, before `on_episode_start`; its first observation is there already."""

    def on_episode_start(self, *args: Any, **kwargs: Any) -> None:
        """Be called with each new `episode`, whose environment has been reset."""

    def on_episode_step(self, *args: Any, **kwargs: Any) -> None:
        """Be called after each step of an `episode`."""

    def on_episode_end(self, *args: Any, **kwargs: Any) -> None:
        """Be called when an `episode` has ended."""

    def on_sample_end(self, *args: Any, **kwargs: Any) -> None:
        """Be called at the end of each sample of a runner, with its `samples`."""


class DefaultCallbacks(RLlibCallback):
    """The same, under its name until 2.x. It also takes the functions that 0.8.5 had before it, by their events."""

    def __init__(self, legacy_callbacks_dict: dict[str, Callable[[dict[str, Any]], Any]] | None = None) -> None:
        """Call functions with one dict, `info`, beside the methods; see `legacy.INFO`."""
        self.legacy_callbacks = legacy_callbacks_dict or {}
