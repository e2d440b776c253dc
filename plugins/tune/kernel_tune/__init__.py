"""Hyperparameter search on kernel.

Each name is in a file of its own, which is imported when the name is first used.
"""

from typing import Any

from kernel_tune import moved as _moved

_moved.install()

_MODULES: dict[str, tuple[str, ...]] = {
    "analysis": ("Analysis", "ExperimentAnalysis", "Result", "ResultGrid"),
    "callbacks": (),
    "errors": ("MetricError", "SearchSpaceError", "TuneError"),
    "execution.experiment": ("convert_to_experiments", "Experiment"),
    "execution.run": ("run", "run_experiments"),
    "execution.tuner": ("Tuner",),
    "integration": (),
    "loggers": (),
    "reporters": ("CLIReporter", "JupyterNotebookReporter", "ProgressReporter"),
    "result": (),
    "schedulers": (),
    "schedulers.registry": ("create_scheduler",),
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
        "BasicVariantGenerator",
        "BOHBSearch",
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
    "searchers.algorithm": ("SearchAlgorithm",),
    "searchers.registry": ("create_searcher",),
    "settings": ("ResumeConfig", "TuneConfig"),
    "stoppers": ("Stopper",),
    "testing": (),
    "trainable": (),
    "trainable.session": ("TuneContext",),
    "trial": ("ExportFormat", "Trial"),
}
_OF_RUNS: dict[str, tuple[str, ...]] = {
    "callbacks": ("Callback",),
    "checkpoint": ("Checkpoint",),
    "errors": ("CheckpointError", "OptionalDependencyError", "TrialError"),
    "resources": ("PlacementGroupFactory", "Resources"),
    "session": ("get_checkpoint", "get_context", "get_trial_dir", "get_trial_id", "get_trial_name", "report"),
    "settings.run": ("CheckpointConfig", "FailureConfig", "RunConfig", "SyncConfig"),
    "trainable.durable": ("DurableTrainable",),
    "trainable.function": ("StatusReporter",),
    "trainable.function_session": ("checkpoint_dir",),
    "trainable.registry": ("register_env", "register_trainable"),
    "trainable.trainable": ("Trainable",),
    "trainable.wrappers": (
        "get_pinned_object",
        "pin_in_object_store",
        "validate_save_restore",
        "with_parameters",
        "with_resources",
    ),
}
"""Names that all libraries share, and that this library offers as well."""
_HOMES = {
    **{name: f"kernel_tune.{module}" for module, names in _MODULES.items() for name in names},
    **{name: f"kernel_runs.{module}" for module, names in _OF_RUNS.items() for name in names},
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import an exported name, or a module of this package, when it is first used."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"kernel_tune.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'kernel_tune' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *__all__])
