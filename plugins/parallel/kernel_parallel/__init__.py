"""Parallel helpers on kernel: pools, queues, iterators, collective operations, locks and progress bars.

Each name is in a file of its own, and is loaded when it is first used.
"""

from typing import Any as _Any

_HOMES = {
    "actor_pool": ("ActorPool",),
    "executor": ("KernelExecutor",),
    "queue": ("Empty", "Full", "Queue"),
}
_MODULES = {name: f"kernel_parallel.{home}" for home, names in _HOMES.items() for name in names}
_PACKAGES = ("joblib", "multiprocessing")

__all__ = [*sorted(_MODULES), *_PACKAGES]


def __getattr__(name: str) -> _Any:
    """Import what is exported here when it is first used."""
    import importlib

    if name in _PACKAGES:
        return importlib.import_module(f"kernel_parallel.{name}")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
