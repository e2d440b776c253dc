"""What a logger is: a callback that hears of each trial by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.callbacks import Callback
from kernel_runs.reports import Report
from kernel_runs.run import Run


class LoggerCallback(Callback):
    """Override what you want to hear. All is called on the driver, for each trial in the order in which it happens.

    What is opened for a trial should be closed in `log_trial_end`. A trial may start several times: after a pause,
    after a failure, and when an experiment resumes. `trial.results` says how many results it has reported before: a
    logger that finds more (from after the last moment that the experiment remembers) takes them back. A library
    without trials has one `Run` that it calls this with.
    """

    def log_trial_start(self, trial: Run) -> None:
        """A trial runs, for the first time or again."""

    def log_trial_restore(self, trial: Run) -> None:
        """A trial goes on from a checkpoint."""

    def log_trial_save(self, trial: Run) -> None:
        """A trial is about to save a checkpoint."""

    def log_trial_result(self, iteration: int, trial: Run, result: Report) -> None:
        """A trial has reported; `iteration` counts the steps of the loop."""

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        """A trial has ended; `failed` says that it was by an error."""

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
