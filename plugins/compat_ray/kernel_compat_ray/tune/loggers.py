"""Loggers of one trial, by the names of the first releases: they do what today's do, for a single trial."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from kernel.runs import LoggerCallback, Run
from kernel.runs.loggers import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    Logger,
    MLflowLoggerCallback,
    TBXLoggerCallback,
)
from kernel.runs.loggers.per_trial import LoggerCreator
from kernel.runs.reports import Report


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
"""The loggers that run by default; a program adds its own: `loggers=DEFAULT_LOGGERS + (MyLogger,)`."""


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


class MLFLowLogger(Logger):
    """Logs one trial to MLflow, in the experiment `config["mlflow_experiment_id"]`, or that of the environment."""

    def _init(self) -> None:
        self._own = self.trial or Run("", config=self.config, name=os.path.basename(self.logdir))
        self._callback = MLflowLoggerCallback(tracking_uri=self.config.get("mlflow_tracking_uri"))
        given = self.config.get("mlflow_experiment_id")
        if given is not None:
            self._callback._find_experiment = lambda: str(given)  # type: ignore[method-assign]
        self._callback.setup()
        self._callback.log_trial_start(self._own)

    def on_result(self, result: Report) -> None:
        self._callback.log_trial_result(0, self._own, result)

    def close(self) -> None:
        self._callback.log_trial_end(self._own, failed=self._own.has_failed)
