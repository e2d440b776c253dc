"""What a logger is: a callback that hears of each trial by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_tune.callbacks import Callback
from kernel_tune.result import Result
from kernel_tune.trial import Trial


class LoggerCallback(Callback):
    """Override what you want to hear. All is called on the driver, for each trial in the order in which it happens.

    What is opened for a trial should be closed in `log_trial_end`. A trial may start several times: after a pause,
    after a failure, and when an experiment resumes. `trial.results` says how many results it has reported before: a
    logger that finds more (from after the last moment that the experiment remembers) takes them back.
    """

    def log_trial_start(self, trial: Trial) -> None:
        """A trial runs, for the first time or again."""

    def log_trial_restore(self, trial: Trial) -> None:
        """A trial goes on from a checkpoint."""

    def log_trial_save(self, trial: Trial) -> None:
        """A trial is about to save a checkpoint."""

    def log_trial_result(self, iteration: int, trial: Trial, result: Result) -> None:
        """A trial has reported; `iteration` counts the steps of the trial loop."""

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """A trial has ended; `failed` says that it was by an error."""

    def on_trial_start(self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_save(trial)

    def on_trial_result(self, iteration: int, trials: Sequence[Trial], trial: Trial, result: Result,
                        **info: Any) -> None:  # fmt: skip
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: Sequence[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_end(trial, failed=True)
