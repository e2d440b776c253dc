"""`tune.run` and `tune.run_experiments` with the arguments of all releases of Ray, in the places that they had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import kernel
from kernel.tune import Trial, TuneError
from kernel.tune import run as run_experiment
from kernel.tune import run_experiments as run_several
from kernel_compat_ray.deprecation import warn_ignored, warn_renamed
from kernel_compat_ray.tune.ray_trial_executor import RayTrialExecutor

_PLACES = (
    "run_or_experiment", "name", "stop", "config", "resources_per_trial", "num_samples", "local_dir", "upload_dir",
    "trial_name_creator", "loggers", "sync_to_cloud", "sync_to_driver", "checkpoint_freq", "checkpoint_at_end",
    "sync_on_checkpoint", "keep_checkpoints_num", "checkpoint_score_attr", "global_checkpoint_period", "export_formats",
    "max_failures", "fail_fast", "restore", "search_alg", "scheduler", "with_server", "server_port", "verbose",
    "progress_reporter", "resume", "queue_trials", "reuse_actors", "trial_executor", "raise_on_failed_trial",
    "return_trials", "ray_auto_init",
)  # fmt: skip
_PLACES_OF_SEVERAL = (
    "experiments", "search_alg", "scheduler", "with_server", "server_port", "verbose", "progress_reporter", "resume",
    "queue_trials", "reuse_actors", "trial_executor", "raise_on_failed_trial", "concurrent",
)  # fmt: skip
_RENAMED = {"algo": "search_alg", "progress_runner": "progress_reporter"}
"""As examples of the first releases have them."""


def run(*arguments: Any, **named: Any) -> Any:
    """Run an experiment as `kernel.tune.run` does, with arguments of Ray Tune besides.

    `trial_executor` is a `RayTrialExecutor` whose `queue_trials` and `reuse_actors` count. With `ray_auto_init=False`
    there must be a session already. `algo` and `progress_runner` are `search_alg` and `progress_reporter`.
    Raises TuneError for another executor and where there is no session, and what `kernel.tune.run` raises.
    """
    given = _by_name("run", _PLACES, arguments, named)
    for old in _RENAMED.keys() & given.keys():
        warn_renamed(f"{old} of tune.run()", _RENAMED[old])
        given[_RENAMED[old]] = given.pop(old)
    if given.pop("sync_on_checkpoint", True) is not True:
        warn_ignored("sync_on_checkpoint of tune.run()", "checkpoints are where a trial can go on from them")
    if not given.pop("ray_auto_init", True) and not kernel.is_initialized():
        raise TuneError("there is no session, and ray_auto_init=False: call ray.init() before tune.run()")
    return run_experiment(**_with_executor(given))


def run_experiments(*arguments: Any, **named: Any) -> list[Trial]:
    """Run several experiments as `kernel.tune.run_experiments` does; `trial_executor` is as `run` takes it."""
    given = _by_name("run_experiments", _PLACES_OF_SEVERAL, arguments, named)
    return run_several(**_with_executor(given))


def _by_name(
    function: str, places: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all arguments by their names. Raises TypeError for too many, and for one that is given twice."""
    if len(arguments) > len(places):
        raise TypeError(f"tune.{function}() takes at most {len(places)} arguments without a name, not {len(arguments)}")
    given = dict(zip(places, arguments, strict=False))
    if twice := sorted(given.keys() & named.keys()):
        raise TypeError(f"tune.{function}() got {twice[0]} twice: by its place and by its name")
    return {**given, **named}


def _with_executor(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the two settings of a trial executor in its place. Raises TuneError for another one."""
    executor = given.pop("trial_executor", None)
    if executor is None:
        return given
    if type(executor) is not RayTrialExecutor:
        kind = type(executor)
        said = f"a {kind.__name__}" if issubclass(kind, RayTrialExecutor) else repr(executor)
        raise TuneError(
            f"trial_executor is {said}: of a RayTrialExecutor queue_trials and reuse_actors are made use of, its "
            "methods are not. What runs when is decided by a trial scheduler, where by resources_per_trial; for a loop "
            "of your own call the executor's methods yourself"
        )
    settings = {"queue_trials": executor.queue_trials, "reuse_actors": executor.reuse_actors}
    return {**given, **{name: given.get(name) or value for name, value in settings.items()}}
