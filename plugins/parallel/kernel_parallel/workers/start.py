"""Starts the workers: a session if there is none, and an actor for each, spread over the nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import kernel
from kernel.exceptions import OptionError
from kernel_parallel.workers.dispatcher import ChunkDispatcher
from kernel_parallel.workers.placement import spread
from kernel_parallel.workers.worker import CONTROL, PoolWorker

DEFAULT_RETRIES = 3


def ensure_session(address: str | None) -> None:
    """Join the session at `address` if this process is in none; without one start one, or join KERNEL_ADDRESS's."""
    if not kernel.is_initialized():
        kernel.init(address=address)


def cluster_cpus() -> int:
    """Return how many CPUs the session has, at least one."""
    return max(1, int(kernel.cluster_resources().get("CPU", 0) or (os.cpu_count() or 1)))


def start_dispatcher(
    size: int,
    initializer: Callable[..., Any] | None,
    initargs: tuple[Any, ...],
    max_tasks: int | None,
    remote_args: Mapping[str, Any] | None,
) -> ChunkDispatcher:
    """Return a dispatcher with `size` workers, which are actors with the options `remote_args`.

    A worker holds no CPU unless they say so. Then the scheduler finds its node; else nodes get workers in proportion
    to their CPUs. Raises OptionError for options that can't be.
    """
    options = dict(remote_args or {})
    retries = options.pop("max_task_retries", DEFAULT_RETRIES)
    if options.pop("max_restarts", 0):
        raise OptionError("workers of a pool are not restarted but replaced; leave out max_restarts")
    if "name" in options:
        raise OptionError("workers of a pool can't share a name; leave out name")
    actor = kernel.remote(PoolWorker).options(**{"concurrency_groups": {CONTROL: 1}, **options})
    places = [] if {"num_cpus", "num_gpus", "resources", "scheduling_strategy"} & options.keys() else _places(size)

    def start(number: int) -> Any:
        chosen = actor
        if places:
            strategy = kernel.NodeAffinitySchedulingStrategy(places[number % size], soft=True)
            chosen = actor.options(scheduling_strategy=strategy)
        return chosen.remote(initializer, initargs)

    return ChunkDispatcher(size, start, max_tasks, float("inf") if retries == -1 else retries)


def _places(size: int) -> list[str]:
    nodes = {node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in kernel.nodes() if node["Alive"]}
    return spread(size, nodes) if len(nodes) > 1 else []
