"""What a progress reporter is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_tune.reporters.info import ExperimentInfo
from kernel_tune.trial import Trial


class ProgressReporter:
    """Shows how an experiment goes. It is asked after whatever happens to a trial, from the thread that runs it all.

    `experiment` says what else there is to know, and is brought up to date before each report.
    """

    experiment: ExperimentInfo = ExperimentInfo()

    def setup(self, start_time: float | None = None, total_samples: int | None = None, metric: str | None = None,
              mode: str | None = None, **info: Any) -> None:  # fmt: skip
        """Called once, before all else: when it began (seconds since 1970), how many trials there will be, by what."""

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """Return whether `report` is to be called now; `done` marks the last time."""
        raise NotImplementedError(f"{type(self).__name__} must define should_report(trials, done=False)")

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        """Show the trials. `sys_info` are lines about memory, scheduler and resources."""
        raise NotImplementedError(f"{type(self).__name__} must define report(trials, done, *sys_info)")

    def close(self) -> None:
        """Called when the experiment has ended in whatever way: give the terminal back."""


def show(reporter: ProgressReporter, trials: Sequence[Trial], info: ExperimentInfo, done: bool = False) -> bool:
    """Report if the reporter wants to; return whether it has."""
    if not reporter.should_report(trials, done=done):
        return False
    reporter.experiment = info
    reporter.report(trials, done, *info.lines())
    return True
