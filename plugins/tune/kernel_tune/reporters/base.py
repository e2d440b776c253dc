"""The base of progress reporters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_tune.reporters.info import ExperimentInfo
from kernel_tune.trial import Trial


class ProgressReporter:
    """Displays the progress of an experiment. It is called after every event, in the thread of the runner.

    `experiment` has information besides the trials, and is updated before each report.
    """

    experiment: ExperimentInfo = ExperimentInfo()

    def setup(self, start_time: float | None = None, total_samples: int | None = None, metric: str | None = None,
              mode: str | None = None, **info: Any) -> None:  # fmt: skip
        """Is called once, first. `start_time` is in seconds since 1970, `total_samples` a number of trials."""

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """Return whether `report` is to be called now. `done` marks the last time."""
        raise NotImplementedError(f"{type(self).__name__} must define should_report(trials, done=False)")

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        """Display the trials. `sys_info` are lines about memory, scheduler and resources."""
        raise NotImplementedError(f"{type(self).__name__} must define report(trials, done, *sys_info)")

    def close(self) -> None:
        """Restore the terminal. Is called when the experiment has ended, also after an error."""


def show(reporter: ProgressReporter, trials: Sequence[Trial], info: ExperimentInfo, done: bool = False) -> bool:
    """Report if the reporter wants to. Return whether it has."""
    if not reporter.should_report(trials, done=done):
        return False
    reporter.experiment = info
    reporter.report(trials, done, *info.lines())
    return True
