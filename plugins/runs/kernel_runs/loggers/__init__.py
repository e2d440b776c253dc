"""Loggers: they write what runs report to files and to trackers of experiments."""

from typing import Any

_HOMES = {
    "CSVLoggerCallback": "csv_logger",
    "CometLoggerCallback": "comet",
    "DEFAULT_LOGGERS": "per_trial",
    "JsonLoggerCallback": "json_logger",
    "Logger": "per_trial",
    "LoggerCallback": "base",
    "MLflowLoggerCallback": "mlflow",
    "PerTrialCallback": "per_trial",
    "TBXLoggerCallback": "tensorboard",
    "WandbLoggerCallback": "wandb",
    "callbacks_of": "per_trial",
    "pretty_print": "pretty",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
