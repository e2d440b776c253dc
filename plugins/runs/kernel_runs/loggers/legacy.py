"""Loggers of the older form: one object a trial, made from its configuration and its directory."""

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
"""A class like `Logger`, or a function with its arguments."""


class Logger:
    """Logs one trial. A subclass overrides `_init` where something is to be opened, `on_result`, and `close`.

    `config` is the trial's configuration, `logdir` its directory, `trial` the trial.
    """

    def __init__(self, config: dict[str, Any], logdir: str, trial: Run | None = None) -> None:
        self.config = config
        self.logdir = os.path.expanduser(logdir)
        self.trial = trial
        self._init()

    def _init(self) -> None:
        """Open what is needed."""

    def on_result(self, result: Report) -> None:
        """The trial has reported."""
        raise NotImplementedError(f"{type(self).__name__} must say what to do with a result: define on_result(result)")

    def update_config(self, config: dict[str, Any]) -> None:
        """The trial goes on with another configuration."""

    def flush(self) -> None:
        """Write what is still in memory."""

    def close(self) -> None:
        """The trial has ended."""


class NoopLogger(Logger):
    """Logs nothing."""

    def on_result(self, result: Report) -> None:
        pass


class _FileLogger(Logger):
    """One of today's loggers, for a single trial."""

    callback_type: Callable[[], LoggerCallback]

    def _init(self) -> None:
        folder, name = os.path.split(os.path.abspath(self.logdir))
        own = self.trial
        self._stand_in = Run(
            own.trainable_name if own else "",
            config=self.config,
            trial_id=own.trial_id if own else "",
            evaluated_params=own.evaluated_params if own else {},
            results=own.results if own else 0,
            local_dir=folder,
            name=name,
        )
        self._callback = type(self).callback_type()
        self._callback.log_trial_start(self._stand_in)

    def on_result(self, result: Report) -> None:
        self._callback.log_trial_result(0, self._stand_in, result)
        self._stand_in.last_result = result
        self._stand_in.results += 1

    def close(self) -> None:
        failed = self.trial is not None and self.trial.has_failed
        self._callback.log_trial_end(self._stand_in, failed)


class JsonLogger(_FileLogger):
    """Writes result.json, params.json and params.pkl of one trial."""

    callback_type = JsonLoggerCallback

    def update_config(self, config: dict[str, Any]) -> None:
        self.config = config
        self._callback.update_config(self._stand_in, config)  # type: ignore[attr-defined]


class CSVLogger(_FileLogger):
    """Writes progress.csv of one trial."""

    callback_type = CSVLoggerCallback


class TBXLogger(_FileLogger):
    """Writes TensorBoard events of one trial; the HParams tab gets its own when the trial ends."""

    callback_type = TBXLoggerCallback


DEFAULT_LOGGERS: tuple[type[Logger], ...] = (JsonLogger, CSVLogger, TBXLogger)
"""What runs when nobody says otherwise; add your own: `loggers=DEFAULT_LOGGERS + (MyLogger,)`."""


class UnifiedLogger(Logger):
    """Runs several loggers as one, `DEFAULT_LOGGERS` unless `loggers` says which.

    `sync_function(logdir)` is called after `flush` and `close`, if it is one.
    """

    def __init__(self, config: dict[str, Any], logdir: str, trial: Run | None = None,
                 loggers: Sequence[LoggerCreator] | None = None,
                 sync_function: Callable[[str], Any] | None = None) -> None:  # fmt: skip
        self._creators = DEFAULT_LOGGERS if loggers is None else loggers
        self._sync_function = sync_function
        super().__init__(config, logdir, trial)

    def _init(self) -> None:
        self._loggers = [create(self.config, self.logdir, self.trial) for create in self._creators]

    def on_result(self, result: Report) -> None:
        for logger in self._loggers:
            logger.on_result(result)

    def update_config(self, config: dict[str, Any]) -> None:
        for logger in self._loggers:
            logger.update_config(config)

    def flush(self) -> None:
        for logger in self._loggers:
            logger.flush()
        self._sync()

    def close(self) -> None:
        for logger in self._loggers:
            logger.close()
        self._sync()

    def _sync(self) -> None:
        if callable(self._sync_function):
            self._sync_function(self.logdir)


class LegacyLoggerCallback(LoggerCallback):
    """Runs loggers of the older form: one of each for every trial, made when it first runs."""

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
    loggers: Sequence[LoggerCreator | LoggerCallback] | None = None, owner: str = "runs"
) -> list[LoggerCallback]:
    """Return the callbacks that do what these loggers do; `DEFAULT_LOGGERS` for None. Errors begin with `owner`.

    The three default ones are replaced by their quick forms; the other classes run as they are.
    """
    if not isinstance(loggers, (Sequence, type(None))):
        raise ArgumentError(f"{owner}: loggers is {loggers!r}, but must be a list or tuple of loggers")
    found: list[LoggerCallback] = []
    older: list[LoggerCreator] = []
    for logger in DEFAULT_LOGGERS if loggers is None else loggers:
        if isinstance(logger, LoggerCallback):
            found.append(logger)
        elif isinstance(logger, type) and logger in DEFAULT_LOGGERS:
            found.append(logger.callback_type())  # type: ignore[attr-defined]
        elif not callable(logger):
            raise ArgumentError(
                f"{owner}: {logger!r}, one of loggers, is no class such as CSVLogger, nor a LoggerCallback"
            )
        elif logger is not NoopLogger:
            older.append(logger)
    return found + ([LegacyLoggerCallback(older)] if older else [])
