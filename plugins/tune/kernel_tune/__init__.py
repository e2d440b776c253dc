"""Hyperparameter search on kernel.

Each name is in a file of its own, and is loaded when it is first used.
"""

from typing import Any

_MODULES: dict[str, tuple[str, ...]] = {
    "callbacks": ("Callback",),
    "errors": (
        "CheckpointError",
        "MetricError",
        "OptionalDependencyError",
        "SearchSpaceError",
        "TrialError",
        "TuneError",
    ),
    "result": (),
    "schedulers": (),
    "search_space": (
        "choice",
        "count_variants",
        "evaluated_parameters",
        "experiment_tag",
        "generate_variants",
        "grid_search",
        "lograndint",
        "loguniform",
        "qlograndint",
        "qloguniform",
        "qrandint",
        "qrandn",
        "quniform",
        "randint",
        "randn",
        "sample_from",
        "uniform",
    ),
    "searchers": (
        "BOHBSearch",
        "BasicVariantGenerator",
        "CMAESSearch",
        "ConcurrencyLimiter",
        "GPSearch",
        "GridSearch",
        "NelderMeadSearch",
        "RandomSearch",
        "Repeater",
        "Searcher",
        "SobolSearch",
        "TPESearch",
    ),
    "testing": (),
    "trial": ("Trial",),
}
_HOMES = {name: f"kernel_tune.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import what is exported here, or a module of this package, when it is first used."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"kernel_tune.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'kernel_tune' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *__all__])
