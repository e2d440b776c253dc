"""The part of the table that is about Ray Tune, and what Ray AIR and Train share with it.

Modules of `ray.tune` that have the same name in `kernel.tune` are not here: they are found by it.
"""

from __future__ import annotations

_SEARCHERS = {
    "BasicVariantGenerator": "kernel.tune.execution.searcher_algorithm:BasicVariantGenerator",
    "ConcurrencyLimiter": "kernel.tune.searchers:ConcurrencyLimiter",
    "Repeater": "kernel.tune.searchers:Repeater",
    "SearchAlgorithm": "kernel.tune:SearchAlgorithm",
    "SearchGenerator": "kernel.tune.execution.searcher_algorithm:SearcherAlgorithm",
    "Searcher": ".tune.search:Searcher",
    "create_searcher": ".tune.search:create_searcher",
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
_OWN_ADAPTERS = (
    "BayesOptSearch", "HyperOptSearch", "NevergradSearch", "OptunaSearch", "SigOptSearch", "SkOptSearch", "TuneBOHB",
)  # fmt: skip
"""Searchers that take arguments of earlier releases as well."""
_OWN_SCHEDULERS = {
    "async_hyperband": ("ASHAScheduler", "AsyncHyperBandScheduler"),
    "hb_bohb": ("HyperBandForBOHB",),
    "hyperband": ("HyperBandScheduler",),
    "median_stopping_rule": ("MedianStoppingRule",),
    "pb2": ("PB2",),
    "pbt": ("PopulationBasedTraining",),
}
"""Schedulers that take arguments under older names as well, by the module that has them."""
_SCHEDULERS = {
    module: {name: f".tune.schedulers:{name}" for name in names} for module, names in _OWN_SCHEDULERS.items()
}
_BY_NAME = {"create_scheduler": ".tune.schedulers:create_scheduler"}
_SETTINGS = {
    name: f"kernel.runs:{name}"
    for name in ("CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig", "SyncConfig")
} | {name: f".tune.settings:{name}" for name in ("RunConfig", "ScalingConfig")}
_REPORTING = {name: f"kernel.runs:{name}" for name in ("Checkpoint", "get_checkpoint", "get_context", "report")}
_SHARDS = {"get_dataset_shard": "kernel.runs:get_dataset_shard"}
_RESULT = {"Result": "kernel.runs:Result"}
_TRIAL = {name: f"kernel.tune:{name}" for name in ("get_trial_dir", "get_trial_id", "get_trial_name")}
_DOMAINS = ("Categorical", "Domain", "Float", "Function", "Integer")
_FUNCTIONS = (
    "choice", "lograndint", "loguniform", "qlograndint", "qloguniform", "qrandint", "qrandn", "quniform", "randint",
    "randn", "sample_from", "uniform",
)  # fmt: skip
_OF_ONE_TRIAL = (
    "CSVLogger",
    "DEFAULT_LOGGERS",
    "JsonLogger",
    "MLFLowLogger",
    "NoopLogger",
    "TBXLogger",
    "UnifiedLogger",
)
_CALLBACKS = (
    "CSVLoggerCallback",
    "JsonLoggerCallback",
    "Logger",
    "LoggerCallback",
    "TBXLoggerCallback",
    "pretty_print",
)
_LOGGERS = {
    **{name: f".tune.loggers:{name}" for name in _OF_ONE_TRIAL},
    **{name: f"kernel.runs.loggers:{name}" for name in _CALLBACKS},
}
_STOPPERS = {
    "experiment_plateau": "ExperimentPlateauStopper",
    "function_stopper": "FunctionStopper",
    "maximum_iteration": "MaximumIterationStopper",
    "noop": "NoopStopper",
    "timeout": "TimeoutStopper",
    "trial_plateau": "TrialPlateauStopper",
}
_SPACE = {
    **{name: f"kernel.tune.search_space:{name}" for name in (*_DOMAINS, *_FUNCTIONS)},
    **{name: f".tune.search:{name}" for name in ("choice", "loguniform", "uniform")},
}
_RESOURCE_CHANGING = ("DistributeResources", "DistributeResourcesToTopJob", "ResourceChangingScheduler")
_UTILITIES = {
    **{name: f".tune.helpers:{name}" for name in (
        "date_str", "deep_update", "diagnose_serialization", "flatten_dict", "merge_dicts", "unflattened_lookup",
        "warn_if_slow",
    )},
    **{name: f"kernel.tune:{name}" for name in ("get_pinned_object", "pin_in_object_store", "validate_save_restore")},
}  # fmt: skip
_PLACEMENT = {
    "PlacementGroupFactory": "kernel.tune:PlacementGroupFactory",
    "resource_dict_to_pg_factory": ".tune.helpers:resource_dict_to_pg_factory",
}
_GIVEN = {name: f"kernel.tune:{name}" for name in ("with_parameters", "with_resources")}
_FUNCTION_TRAINABLES = {
    name: f"kernel.runs.trainable.function:{name}" for name in ("FunctionTrainable", "wrap_function")
}
_TRAINABLES = {name: f".tune.trainable:{name}" for name in ("DurableTrainable", "Trainable")}
_RUN = {name: f".tune.run:{name}" for name in ("run", "run_experiments")}
_TRACKERS = {"comet": "CometLoggerCallback", "mlflow": "MLflowLoggerCallback", "wandb": "WandbLoggerCallback"}


def _adapter(name: str) -> str:
    """Return the target of a searcher that asks another library."""
    return f".tune.search:{name}" if name in _OWN_ADAPTERS else f"kernel.tune.searchers:{name}"


TUNE_NAMES: dict[str, dict[str, str]] = {
    "ray.air": {**_SETTINGS, "Checkpoint": "kernel.runs:Checkpoint", **_RESULT},
    "ray.air.checkpoint": {"Checkpoint": "kernel.runs:Checkpoint"},
    "ray.air.config": _SETTINGS,
    "ray.air.constants": {},
    "ray.air.integrations": {},
    **{f"ray.air.integrations.{module}": {name: f"kernel.runs.loggers:{name}"} for module, name in _TRACKERS.items()},
    "ray.air.result": _RESULT,
    "ray.air.session": {**_REPORTING, **_SHARDS, **_TRIAL},
    "ray.train": {**_SETTINGS, **_REPORTING, **_SHARDS, **_RESULT},
    "ray.train.lightgbm": {
        "RayTrainReportCallback": "kernel.tune.integration.lightgbm:TuneReportCheckpointCallback",
    },
    "ray.train.lightning": {"RayTrainReportCallback": "kernel.tune.integration.lightning:EpochReportCallback"},
    "ray.train.tensorflow": {},
    "ray.train.tensorflow.keras": {
        "ReportCheckpointCallback": "kernel.tune.integration.keras:ReportCheckpointCallback",
    },
    "ray.train.xgboost": {"RayTrainReportCallback": "kernel.tune.integration.xgboost:TuneReportCheckpointCallback"},
    "ray.tune": {
        "*": "kernel.tune",
        # Besides what the library itself exports; its older modules are attributes of this one as well.
        "Logger": "kernel.runs.loggers:Logger",
        "function": ".tune.helpers:function",
        **{name: _SPACE[name] for name in ("choice", "loguniform", "uniform")},
        **_BY_NAME,
        **{name: f".tune.settings:{name}" for name in ("RunConfig", "Tuner")},
        **_TRAINABLES,
        **{name: _SEARCHERS[name] for name in ("Searcher", "create_searcher")},
        **_RUN,
    },
    "ray.tune.analysis.experiment_analysis": {
        "Analysis": "kernel.tune.analysis:Analysis",
        "ExperimentAnalysis": "kernel.tune.analysis:ExperimentAnalysis",
    },
    "ray.tune.callback": {"Callback": "kernel.tune:Callback"},
    "ray.tune.context": {name: f"kernel.tune:{name}" for name in ("TuneContext", "get_context")},
    "ray.tune.durable_trainable": {"DurableTrainable": _TRAINABLES["DurableTrainable"]},
    "ray.tune.error": {
        "AbortTrialExecution": ".tune.trial_executor:AbortTrialExecution",
        "TuneError": "kernel.tune:TuneError",
    },
    "ray.tune.execution.placement_groups": _PLACEMENT,
    "ray.tune.experiment": {
        "Experiment": "kernel.tune:Experiment",
        "Trial": "kernel.tune:Trial",
        "convert_to_experiment_list": "kernel.tune:convert_to_experiments",
    },
    "ray.tune.experiment.experiment": {"Experiment": "kernel.tune:Experiment"},
    "ray.tune.experiment.trial": {name: f"kernel.tune:{name}" for name in ("ExportFormat", "Trial")},
    "ray.tune.function_runner": {"StatusReporter": "kernel.tune:StatusReporter"},
    "ray.tune.integration": {},
    "ray.tune.integration.pytorch_lightning": {
        name: f"kernel.tune.integration.lightning:{name}"
        for name in ("TuneReportCallback", "TuneReportCheckpointCallback")
    },
    "ray.tune.logger": _LOGGERS,
    "ray.tune.logger.csv": {name: _LOGGERS[name] for name in ("CSVLogger", "CSVLoggerCallback")},
    "ray.tune.logger.json": {name: _LOGGERS[name] for name in ("JsonLogger", "JsonLoggerCallback")},
    "ray.tune.logger.logger": {
        name: f"kernel.runs.loggers:{name}" for name in ("Logger", "LoggerCallback", "pretty_print")
    },
    **{f"ray.tune.logger.{module}": {name: f"kernel.runs.loggers:{name}"} for module, name in _TRACKERS.items()},
    "ray.tune.logger.tensorboardx": {name: _LOGGERS[name] for name in ("TBXLogger", "TBXLoggerCallback")},
    "ray.tune.progress_reporter": {
        name: f"kernel.tune.reporters:{name}" for name in ("CLIReporter", "JupyterNotebookReporter", "ProgressReporter")
    },
    "ray.tune.ray_trial_executor": {"RayTrialExecutor": ".tune.ray_trial_executor:RayTrialExecutor"},
    "ray.tune.registry": {
        "get_trainable_cls": "kernel.runs.trainable.registry:find_trainable",
        "register_env": "kernel.tune:register_env",
        "register_trainable": "kernel.tune:register_trainable",
    },
    "ray.tune.resources": {
        "Resources": "kernel.tune:Resources",
        "json_to_resources": ".tune.helpers:json_to_resources",
    },
    "ray.tune.result_grid": {"ResultGrid": "kernel.tune.analysis:ResultGrid"},
    "ray.tune.schedulers.resource_changing_scheduler": {
        name: f"kernel.tune.schedulers:{name}" for name in _RESOURCE_CHANGING
    },
    "ray.tune.schedulers": {
        "*": "kernel.tune.schedulers",
        **_BY_NAME,
        **{name: target for names in _SCHEDULERS.values() for name, target in names.items()},
    },
    **{f"ray.tune.schedulers.{module}": names for module, names in _SCHEDULERS.items()},
    "ray.tune.schedulers.pbt": {
        **_SCHEDULERS["pbt"],
        "PopulationBasedTrainingReplay": "kernel.tune.schedulers:PopulationBasedTrainingReplay",
    },
    "ray.tune.schedulers.trial_scheduler": {
        name: f"kernel.tune.schedulers:{name}" for name in ("FIFOScheduler", "TrialScheduler")
    },
    "ray.tune.search": {**_SEARCHERS, "grid_search": "kernel.tune:grid_search"},
    **{
        f"ray.tune.search.{module}": {name: _SEARCHERS[name]}
        for module, name in (
            ("concurrency_limiter", "ConcurrencyLimiter"),
            ("search_algorithm", "SearchAlgorithm"),
            ("search_generator", "SearchGenerator"),
        )
    },
    "ray.tune.search.searcher": {name: _SEARCHERS[name] for name in ("ConcurrencyLimiter", "Searcher")},
    "ray.tune.search.basic_variant": {"BasicVariantGenerator": _SEARCHERS["BasicVariantGenerator"]},
    "ray.tune.search.repeater": {
        "Repeater": "kernel.tune.searchers:Repeater",
        "TRIAL_INDEX": "kernel.tune.searchers:TRIAL_INDEX",
    },
    "ray.tune.search.sample": _SPACE,
    "ray.tune.search.variant_generator": {
        name: f"kernel.tune:{name}" for name in ("count_variants", "generate_variants", "grid_search")
    },
    **{f"ray.tune.search.{module}": {name: _adapter(name)} for module, name in sorted(_ADAPTERS.items())},
    **{
        f"ray.tune.search.{module}.{module}_search": {name: _adapter(name)}
        for module, name in sorted(_ADAPTERS.items())
    },
    "ray.tune.stopper": {
        name: f"kernel.tune.stoppers:{name}" for name in ("CombinedStopper", "Stopper", *_STOPPERS.values())
    },
    **{f"ray.tune.stopper.{module}": {name: f"kernel.tune.stoppers:{name}"} for module, name in _STOPPERS.items()},
    "ray.tune.stopper.stopper": {name: f"kernel.tune.stoppers:{name}" for name in ("CombinedStopper", "Stopper")},
    "ray.tune.syncer": {"SyncConfig": "kernel.tune:SyncConfig"},
    "ray.tune.trial_executor": {"TrialExecutor": ".tune.trial_executor:TrialExecutor"},
    "ray.tune.trial_runner": {},
    "ray.tune.track": {
        name: f".tune.track:{name}"
        for name in ("init", "log", "logdir", "shutdown", "trial_dir", "trial_id", "trial_name")
    },
    "ray.tune.trainable": {"Trainable": _TRAINABLES["Trainable"], **_GIVEN, **_FUNCTION_TRAINABLES},
    "ray.tune.trainable.function_trainable": _FUNCTION_TRAINABLES,
    "ray.tune.trainable.trainable_fn_utils": _REPORTING,
    "ray.tune.trainable.util": _GIVEN,
    "ray.tune.tune": _RUN,
    "ray.tune.tune_config": {name: f"kernel.tune:{name}" for name in ("ResumeConfig", "TuneConfig")},
    "ray.tune.tuner": {"Tuner": ".tune.settings:Tuner"},
    "ray.tune.utils": _UTILITIES,
    "ray.tune.utils.util": _UTILITIES,
    "ray.tune.web_server": {"TuneClient": "kernel.tune.server.client:TuneClient"},
}

TUNE_RENAMED: dict[str, str] = {
    "ray.tune.CLIRunner": "ray.tune.CLIReporter",
    "ray.tune.JupyterNotebookRunner": "ray.tune.JupyterNotebookReporter",
}

_TRACKED = (
    "give the callback of the tracker to RunConfig(callbacks=[...]), or begin the run in the trial by its own means"
)

TUNE_REFUSED: dict[str, str] = {
    "ray.air.integrations.mlflow.setup_mlflow": _TRACKED,
    "ray.air.integrations.wandb.setup_wandb": _TRACKED,
    "ray.tune.utils.util.wait_for_gpu": "a trial that asks for a GPU begins when it has one of its own: nobody else's "
    "process is on it",
    "ray.tune.utils.wait_for_gpu": "a trial that asks for a GPU begins when it has one of its own: nobody else's "
    "process is on it",
    "ray.tune.trial_runner.TrialRunner": "use tune.run or tune.Tuner, which run trials to their end. A trial "
    "scheduler gets a Controller where it got a runner (docs/tune-schedulers.md), callbacks have on_step_begin and "
    "on_step_end, and a loop of your own drives trials by ray.tune.ray_trial_executor.RayTrialExecutor "
    "(docs/tune.md)",
}

TUNE_MODULES_REFUSED: dict[str, str] = {
    "ray.tune.constants": "environment variables of Tune are listed in docs/configuration.md",
    "ray.tune.experimental": "there is one output: RunConfig(verbose=...) and progress_reporter= say how much of it",
    "ray.tune.integration.ray_train": "kernel.train is not here yet",
    "ray.tune.logger.aim": "write a LoggerCallback of your own; docs/tune-output.md shows one",
    "ray.tune.utils.log": "say RunConfig(verbose=...)",
    "ray.tune.utils.mock": "they were for Ray's own tests",
    "ray.tune.utils.mock_trainable": "they were for Ray's own tests",
    "ray.tune.utils.release_test_util": "they were for Ray's own tests",
    "ray.tune.examples": "of Ray's examples there is mnist_pytorch, which programs import from. The others of kernel "
    "are in kernel.tune.examples: digits_torch_example and digits_keras_example for those with MNIST, "
    "searchers_example for those of search libraries, pbt_example, hyperband_example and more",
}

TUNE_MODULES_RENAMED: dict[str, str] = {
    **{f"ray.tune.integration.{module}": f"ray.air.integrations.{module}" for module in sorted(_TRACKERS)},
    "ray.tune.sample": "ray.tune.search.sample",
    "ray.tune.util": "ray.tune.utils",
    "ray.tune.suggest": "ray.tune.search",
    "ray.tune.suggest.basic_variant": "ray.tune.search.basic_variant",
    "ray.tune.suggest.repeater": "ray.tune.search.repeater",
    "ray.tune.suggest.search": "ray.tune.search",
    "ray.tune.suggest.suggestion": "ray.tune.search",
    "ray.tune.suggest.variant_generator": "ray.tune.search.variant_generator",
    **{f"ray.tune.suggest.{module}": f"ray.tune.search.{module}" for module in sorted(_ADAPTERS)},
}
