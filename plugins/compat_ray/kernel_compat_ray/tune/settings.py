"""Settings of runs, and the tuner that takes them, with the arguments of the first trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel import runs, tune
from kernel.runs.arguments import ArgumentError
from kernel_compat_ray.deprecation import warn_renamed
from kernel_compat_ray.tune.older_names import translates

_RENAMED = {
    "num_actors": "num_workers",
    "cpus_per_actor": "resources_per_worker={'CPU': ...}",
    "gpus_per_actor": "resources_per_worker={'GPU': ...}",
}


def _of_run(named: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of `RunConfig` with a `failure_config` in place of `max_actor_restarts`.

    Raises `ArgumentError` if both are given.
    """
    if "max_actor_restarts" not in named:
        return named
    if "failure_config" in named:
        raise ArgumentError("RunConfig was given max_actor_restarts and failure_config: give the latter only")
    warn_renamed("max_actor_restarts of RunConfig", "failure_config=FailureConfig(max_failures=...)")
    rest = {name: value for name, value in named.items() if name != "max_actor_restarts"}
    return {**rest, "failure_config": runs.FailureConfig(max_failures=named["max_actor_restarts"])}


def _of_scaling(named: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of `ScalingConfig` with workers, and resources of each, in place of actors and theirs."""
    current = {name: value for name, value in named.items() if name not in _RENAMED}
    for name in [name for name in named if name in _RENAMED]:
        warn_renamed(f"{name} of ScalingConfig", _RENAMED[name])
    if "num_actors" in named:
        current.setdefault("num_workers", named["num_actors"])
    each = {"CPU": named.get("cpus_per_actor"), "GPU": named.get("gpus_per_actor")}
    each = {name: amount for name, amount in each.items() if amount is not None}
    if each:
        current["resources_per_worker"] = {**each, **(current.get("resources_per_worker") or {})}
    if each.get("GPU"):
        current.setdefault("use_gpu", True)
    return current


@translates(_of_run)
class RunConfig(runs.RunConfig):
    """Settings of a run as kernel has them. `max_actor_restarts` is the `max_failures` of its `failure_config`."""


@translates(_of_scaling)
class ScalingConfig(runs.ScalingConfig):
    """Workers of a run as kernel has them. `num_actors` is `num_workers`.

    `cpus_per_actor` and `gpus_per_actor` are amounts of its `resources_per_worker`.
    """


class Tuner(tune.Tuner):
    """Searches hyperparameters as `kernel.tune.Tuner` does. A dict as its `run_config` may have older names, too."""

    def __init__(self, trainable: Any = None, *, run_config: Any = None, **more: Any) -> None:
        if isinstance(run_config, Mapping):
            run_config = RunConfig(**run_config)
        super().__init__(trainable, run_config=run_config, **more)
