"""Share the CPUs equally among the runners, where all machines together have fewer than the runners ask for.

Only CPUs are shared, for processes can take turns on them; and only where waiting could not help. What is busy now is
waited for. No result depends on what is reserved.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import cache

import kernel
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_runs.resources import Demand

_log = logging.getLogger("kernel.rllib")

_PER_CPU = 10_000
"""The scheduler counts in parts of a CPU so small."""


def share_of(asked: Sequence[float], room: Sequence[float], others: Sequence[float] = ()) -> float | None:
    """Return how many CPUs each runner may reserve at most, so that all have room at the same time.

    Args:
        asked: The number of CPUs that each runner asks for.
        room: The number of CPUs of each machine.
        others: The number of CPUs that each of the other processes needs; these are not shared.

    Returns:
        None if the runners have room as they ask, and if not even the others have.
    """
    if not _have_room(others, room) or _have_room([*others, *asked], room):
        return None
    left = _left(others, room)
    shares = {math.floor(cpus * _PER_CPU / runners) / _PER_CPU for cpus in left for runners in range(1, len(asked) + 1)}
    return next(
        (
            share
            for share in sorted(shares, reverse=True)
            if _have_room([*others, *(min(share, cpus) for cpus in asked)], room)
        ),
        0.0,
    )


def share_of_runners(config: AlgorithmConfig) -> float | None:
    """Return how many CPUs each runner of an algorithm that is built here may reserve at most; None: as it asks.

    Where machines have too few, a warning says so. In a placement group, such as that of a trial, its bundles are what
    there is, and who made it has said so.
    """
    asked = [config.num_cpus_per_env_runner] * config.num_env_runners
    if config.evaluation_num_env_runners and (config.reserves_for_evaluation or _bundles_around() is None):
        own = config.get_evaluation_config_object() or config
        asked += [own.num_cpus_per_env_runner] * config.evaluation_num_env_runners
    return share_here(asked, f"the {len(asked)} runners of {config.algorithm}")


def share_here(asked: Sequence[float], whose: str) -> float | None:
    """Return how many CPUs each runner that is started here may reserve at most, and warn; see `share_of_runners`.

    Args:
        asked: The number of CPUs that each runner asks for.
        whose: The beginning of the warning: the runners that ask, such as "the 2 runners of PPO".
    """
    if not sum(asked):
        return None
    bundles = _bundles_around()
    if bundles is not None:
        return share_of(asked, bundles)
    share = share_of(asked, _machines())
    if share is not None:
        _warn(f"{whose} ask", sum(asked), share)
    return share


def shared_bundles(config: AlgorithmConfig) -> list[Demand]:
    """Return the bundles of a trial, in which runners share what its other processes leave of too few CPUs.

    A warning says so, once for all trials of an experiment.
    """
    bundles = config.resource_bundles()
    runners = slice(1, len(bundles) - config.num_learners)
    asked = [bundle["CPU"] for bundle in bundles[runners]]
    if not sum(asked) or not kernel.is_initialized():
        return bundles
    others = [bundle["CPU"] for bundle in (*bundles[: runners.start], *bundles[runners.stop :])]
    share = share_of(asked, _machines(), others)
    if share is None:
        return bundles
    for bundle in bundles[runners]:
        bundle["CPU"] = min(share, bundle["CPU"])
    _warn(
        f"the {len(bundles)} processes of a trial of {config.algorithm}, {len(asked)} of them runners, ask",
        sum(asked) + sum(others),
        share,
    )
    return bundles


def _left(taken: Sequence[float], room: Sequence[float]) -> list[float]:
    """Return what is left of machines when the greatest of these have been put where most is left, one by one."""
    left = list(room) or [0.0]
    for cpus in sorted(taken, reverse=True):
        left[left.index(max(left))] -= cpus
    return left


def _have_room(asked: Sequence[float], room: Sequence[float]) -> bool:
    return min(_left(asked, room)) > -0.5 / _PER_CPU


def _machines() -> list[float]:
    """Return how many CPUs each machine has, less those that this process holds."""
    nodes = [node for node in kernel.nodes() if node["State"] == "ALIVE"]
    here, held = kernel.get_runtime_context().get_node_id(), _held_here()
    return [node["Resources"].get("CPU", 0.0) - (held if node["NodeID"] == here else 0.0) for node in nodes]


def _bundles_around() -> list[float] | None:
    """Return the CPUs of the bundles in which actors that are started here run, less those that this process holds."""
    if not kernel.is_initialized() or not kernel.get_runtime_context().should_capture_child_tasks_in_placement_group:
        return None
    group = kernel.get_current_placement_group()
    assert group is not None, "what captures is a group"
    cpus = [bundle.get("CPU", 0.0) for bundle in group.bundle_specs]
    own = next((index for index, there in enumerate(cpus) if there >= _held_here()), 0)
    cpus[own] -= _held_here()
    return cpus


def _held_here() -> float:
    return kernel.get_runtime_context().get_assigned_resources().get("CPU", 0.0)


def _warn(who_asks: str, cpus: float, share: float) -> None:
    there = sum(node["Resources"].get("CPU", 0.0) for node in kernel.nodes() if node["State"] == "ALIVE")
    _warn_once(
        f"{who_asks} for {cpus:g} CPUs, and all machines together have {there:g}: runners take turns on them, each "
        f"reserves {share:g}. What they learn is the same, but slower than with a CPU each. "
        f"num_cpus_per_env_runner={share:g} says the same without this warning, and "
        f"kernel.init(num_cpus={math.ceil(cpus)}) that there are as many as they ask for"
    )


@cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)
