"""The part of the table that is about Ray Tune, and what Ray AIR and Train share with it.

Modules of `ray.tune` that have the same name in `kernel.tune` are not here: they are found by it.
"""

from __future__ import annotations

_SEARCHERS = {
    "BasicVariantGenerator": "kernel.tune.searchers:BasicVariantGenerator",
    "ConcurrencyLimiter": "kernel.tune.searchers:ConcurrencyLimiter",
    "Repeater": "kernel.tune.searchers:Repeater",
    "SearchAlgorithm": "kernel.tune:SearchAlgorithm",
    "SearchGenerator": "kernel.tune.execution.generation:SearchGenerator",
    "Searcher": "kernel.tune.searchers:Searcher",
    "create_searcher": "kernel.tune.searchers:create_searcher",
}
_ADAPTERS = {
    "ax": "AxSearch",
    "bayesopt": "BayesOptSearch",
    "bohb": "TuneBOHB",
    "dragonfly": "DragonflySearch",
    "hebo": "HEBOSearch",
    "hyperopt": "HyperOptSearch",
    "nevergrad": "NevergradSearch",
    "optuna": "OptunaSearch",
    "sigopt": "SigOptSearch",
    "skopt": "SkOptSearch",
    "zoopt": "ZOOptSearch",
}
_SETTINGS = {name: f"kernel.tune:{name}" for name in ("CheckpointConfig", "FailureConfig", "RunConfig", "SyncConfig")}
_REPORTING = {
    "Checkpoint": "kernel.tune:Checkpoint",
    "get_checkpoint": "kernel.tune:get_checkpoint",
    "get_context": "kernel.tune:get_context",
    "report": "kernel.tune:report",
}
_LOGGERS = (
    "CSVLogger", "CSVLoggerCallback", "DEFAULT_LOGGERS", "JsonLogger", "JsonLoggerCallback", "Logger", "LoggerCallback",
    "MLFLowLogger", "NoopLogger", "TBXLogger", "TBXLoggerCallback", "UnifiedLogger", "pretty_print",
)  # fmt: skip

TUNE_NAMES: dict[str, dict[str, str]] = {
    "ray.air": {**_SETTINGS, "Checkpoint": "kernel.tune:Checkpoint", "Result": "kernel.tune.analysis:Result"},
    "ray.air.checkpoint": {"Checkpoint": "kernel.tune:Checkpoint"},
    "ray.air.config": _SETTINGS,
    "ray.air.session": _REPORTING,
    "ray.tune.analysis.experiment_analysis": {
        "Analysis": "kernel.tune.analysis:Analysis",
        "ExperimentAnalysis": "kernel.tune.analysis:ExperimentAnalysis",
    },
    "ray.tune.callback": {"Callback": "kernel.tune:Callback"},
    "ray.tune.error": {"TuneError": "kernel.tune:TuneError"},
    "ray.tune.experiment": {
        "Experiment": "kernel.tune:Experiment",
        "Trial": "kernel.tune:Trial",
        "convert_to_experiment_list": "kernel.tune:convert_to_experiments",
    },
    "ray.tune.function_runner": {"StatusReporter": "kernel.tune:StatusReporter"},
    "ray.tune.integration.pytorch_lightning": {
        name: f"kernel.tune.integration.lightning:{name}"
        for name in ("TuneReportCallback", "TuneReportCheckpointCallback")
    },
    "ray.tune.logger": {name: f"kernel.tune.loggers:{name}" for name in _LOGGERS},
    "ray.tune.progress_reporter": {
        name: f"kernel.tune.reporters:{name}" for name in ("CLIReporter", "JupyterNotebookReporter", "ProgressReporter")
    },
    "ray.tune.registry": {
        "register_env": "kernel.tune:register_env",
        "register_trainable": "kernel.tune:register_trainable",
    },
    "ray.tune.resources": {"Resources": "kernel.tune:Resources"},
    "ray.tune.result_grid": {"ResultGrid": "kernel.tune.analysis:ResultGrid"},
    "ray.tune.search": _SEARCHERS,
    "ray.tune.search.basic_variant": {"BasicVariantGenerator": "kernel.tune.searchers:BasicVariantGenerator"},
    "ray.tune.search.repeater": {
        "Repeater": "kernel.tune.searchers:Repeater",
        "TRIAL_INDEX": "kernel.tune.searchers:TRIAL_INDEX",
    },
    **{
        f"ray.tune.search.{module}": {name: f"kernel.tune.searchers:{name}"}
        for module, name in sorted(_ADAPTERS.items())
    },
    "ray.tune.utils": {
        name: f"kernel.tune:{name}" for name in ("get_pinned_object", "pin_in_object_store", "validate_save_restore")
    },
    "ray.tune.web_server": {"TuneClient": "kernel.tune.server.client:TuneClient"},
}

TUNE_MODULES_RENAMED: dict[str, str] = {
    "ray.tune.suggest": "ray.tune.search",
    "ray.tune.suggest.basic_variant": "ray.tune.search.basic_variant",
    "ray.tune.suggest.repeater": "ray.tune.search.repeater",
    "ray.tune.suggest.search": "ray.tune.search",
    "ray.tune.suggest.suggestion": "ray.tune.search",
    **{f"ray.tune.suggest.{module}": f"ray.tune.search.{module}" for module in sorted(_ADAPTERS)},
}
