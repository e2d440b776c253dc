"""Runs, for all libraries of kernel: their settings, reports, checkpoints and results on disk.

Each name is in a file of its own, which is imported when the name is first used.
"""

from typing import Any

_MODULES: dict[str, tuple[str, ...]] = {
    "callbacks": ("Callback",),
    "checkpoint": ("Checkpoint",),
    "errors": ("CheckpointError", "OptionalDependencyError", "RunError", "TrialError"),
    "loggers": ("LoggerCallback",),
    "resources": ("PlacementGroupFactory", "Resources"),
    "results.result": ("Result",),
    "run": ("Run",),
    "session": ("Context", "get_checkpoint", "get_context", "get_dataset_shard", "report", "Session"),
    "settings.run": ("CheckpointConfig", "FailureConfig", "RunConfig", "SyncConfig"),
    "settings.scaling": ("ScalingConfig",),
    "trainable.durable": ("DurableTrainable",),
    "trainable.function": ("FunctionTrainable", "wrap_function"),
    "trainable.registry": ("register_env", "register_trainable"),
    "trainable.trainable": ("Trainable",),
    "trainable.wrappers": ("with_parameters", "with_resources"),
}
_HOMES = {name: f"kernel_runs.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'kernel_runs' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
