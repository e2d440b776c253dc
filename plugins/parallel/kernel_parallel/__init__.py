"""Parallel helpers on kernel: pools, queues, iterators, collective operations, locks and progress bars.

Each name is in a file of its own, and is loaded when it is first used.
"""

from typing import Any

_MODULES: dict[str, tuple[str, ...]] = {
    "actor_pool": ("ActorPool",),
    "collective": (
        "CollectiveError",
        "GroupError",
        "MismatchError",
        "RankDiedError",
        "RankTimeoutError",
        "ReduceOp",
        "allgather",
        "allreduce",
        "barrier",
        "broadcast",
        "create_collective_group",
        "destroy_collective_group",
        "get_collective_group_size",
        "get_rank",
        "init_collective_group",
        "is_group_initialized",
        "recv",
        "reduce",
        "reducescatter",
        "send",
    ),
    "coordination": (
        "Barrier",
        "BrokenBarrierError",
        "CoordinationError",
        "Counter",
        "Event",
        "LeaseLostError",
        "Lock",
        "Semaphore",
    ),
    "executor": ("KernelExecutor",),
    "files": ("FileError", "FileResults", "map_files"),
    "iterators": (
        "IterationError",
        "LocalIterator",
        "MetricsContext",
        "NextValueNotReady",
        "ParallelIterator",
        "ParallelIteratorWorker",
        "SharedMetrics",
        "ShardDiedError",
        "from_actors",
        "from_items",
        "from_iterators",
        "from_range",
    ),
    "joblib": (),
    "multiprocessing": (),
    "parameter_server": ("ParameterServer", "StepTimeoutError"),
    "progress": ("tqdm", "trange"),
    "queue": ("Empty", "Full", "Queue"),
}
_HOMES = {name: f"kernel_parallel.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import what is exported here, or a module of this package, when it is first used."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"kernel_parallel.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'kernel_parallel' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *__all__])
