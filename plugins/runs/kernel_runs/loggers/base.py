"""The base of loggers: a callback with one method for each event of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.callbacks import Callback
from kernel_runs.reports import Report
from kernel_runs.run import Run


class LoggerCallback(Callback):
    """Override the methods that you need. They are called in the driver, for each trial in the order of its events.

    Close in `log_trial_end` what you open for a trial. A trial may start several times: after a pause, after a failure,
    and when an experiment resumes. `trial.results` is the number of results that it has reported before. A logger that
    has written more (after the last saved state) deletes the surplus. A library without trials passes the one `Run`
    that it has.
    """

    def log_trial_start(self, trial: Run) -> None:
        """A trial starts, for the first time or again."""

    def log_trial_restore(self, trial: Run) -> None:
        """A trial continues from a checkpoint."""

    def log_trial_save(self, trial: Run) -> None:
        """A trial is about to save a checkpoint."""

    def log_trial_result(self, iteration: int, trial: Run, result: Report) -> None:
        """A trial has reported; `iteration` counts the steps of the loop."""

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        """A trial has ended. `failed`: whether by an error."""

    def on_trial_start(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        self.log_trial_save(trial)

    def on_trial_result(self, iteration: int, trials: Sequence[Run], trial: Run, result: Report,
                        **info: Any) -> None:  # fmt: skip
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        self.log_trial_end(trial, failed=True)
