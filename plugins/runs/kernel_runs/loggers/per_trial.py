"""Loggers with one object for each trial, and the choice of loggers that run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from kernel_runs.arguments import ArgumentError
from kernel_runs.loggers.base import LoggerCallback
from kernel_runs.loggers.csv_logger import CSVLoggerCallback
from kernel_runs.loggers.json_logger import JsonLoggerCallback
from kernel_runs.loggers.tensorboard import TBXLoggerCallback
from kernel_runs.reports import Report
from kernel_runs.run import Run

LoggerCreator = Callable[..., "Logger"]
"""A class like `Logger`, or a function with the same arguments."""

DEFAULT_LOGGERS: tuple[type[LoggerCallback], ...] = (JsonLoggerCallback, CSVLoggerCallback, TBXLoggerCallback)
"""The loggers that run by default. Add your own: `loggers=(*DEFAULT_LOGGERS, MyLogger)`."""


class Logger:
    """Logs one trial. A subclass overrides `on_result`, and `_init` and `close` if it opens something.

    `config` is the trial's configuration, `logdir` its directory, `trial` the trial.
    """

    def __init__(self, config: dict[str, Any], logdir: str, trial: Run | None = None) -> None:
        self.config = config
        self.logdir = os.path.expanduser(logdir)
        self.trial = trial
        self._init()

    def _init(self) -> None:
        """Open what the logger needs."""

    def on_result(self, result: Report) -> None:
        """The trial has reported."""
        raise NotImplementedError(f"{type(self).__name__} must handle results: define on_result(result)")

    def update_config(self, config: dict[str, Any]) -> None:
        """The trial continues with another configuration."""

    def flush(self) -> None:
        """Write buffered data."""

    def close(self) -> None:
        """The trial has ended."""


class PerTrialCallback(LoggerCallback):
    """Creates one logger of each kind for every trial, when the trial first starts."""

    def __init__(self, logger_classes: Sequence[LoggerCreator]) -> None:
        self._creators = list(logger_classes)
        self._loggers: dict[Run, list[Logger]] = {}

    def log_trial_start(self, trial: Run) -> None:
        if trial not in self._loggers:
            os.makedirs(trial.logdir, exist_ok=True)
            self._loggers[trial] = [create(trial.config, trial.logdir, trial) for create in self._creators]
        for logger in self._loggers[trial]:
            logger.update_config(trial.config)

    def log_trial_result(self, iteration: int, trial: Run, result: Report) -> None:
        if trial not in self._loggers:
            self.log_trial_start(trial)
        for logger in self._loggers[trial]:
            logger.on_result(result)

    def log_trial_save(self, trial: Run) -> None:
        for logger in self._loggers.get(trial, ()):
            logger.flush()

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        for logger in self._loggers.pop(trial, ()):
            logger.close()


def callbacks_of(
    loggers: Sequence[LoggerCreator | LoggerCallback | type[LoggerCallback]] | None = None, owner: str = "runs"
) -> list[LoggerCallback]:
    """Return callbacks for these loggers, `DEFAULT_LOGGERS` for None. Error messages begin with `owner`.

    Each logger is a callback, the class of one, or a class like `Logger`. If such a class has an attribute
    `callback_type` of its own, that callback is used instead. Raises `ArgumentError` for other loggers.
    """
    if not isinstance(loggers, (Sequence, type(None))):
        raise ArgumentError(f"{owner}: loggers is {loggers!r}, but must be a list or tuple of loggers")
    found: list[LoggerCallback] = []
    per_trial: list[Any] = []
    for logger in DEFAULT_LOGGERS if loggers is None else loggers:
        if isinstance(logger, LoggerCallback):
            found.append(logger)
        elif isinstance(logger, type) and issubclass(logger, LoggerCallback):
            found.append(logger())
        elif not callable(logger):
            raise ArgumentError(
                f"{owner}: {logger!r}, one of loggers, is neither a LoggerCallback nor a class like Logger"
            )
        elif (own := getattr(logger, "__dict__", {}).get("callback_type")) is not None:  # a subclass does other things
            found.append(own())
        else:
            per_trial.append(logger)
    return found + ([PerTrialCallback(per_trial)] if per_trial else [])
