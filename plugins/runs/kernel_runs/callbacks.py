"""Callbacks, which are called as runs proceed: the base of loggers and of users' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.reports import Report
from kernel_runs.run import Run


class Callback:
    """Is called as runs proceed, in the driver, in the thread of the loop that manages them, in the order of events.

    The methods call a run a trial: it is one of several, or the only one. `iteration` counts the steps of that loop,
    `trials` are all runs. If a callback raises, the experiment is saved and ends with a RunError that names the
    callback and has its error as the cause.
    """

    hears_again = False
    """Whether the callback is called again, when an experiment resumes, for events that were lost by a kill: those
    after the last saved state. Each trial is then started first, with the number of results that it had in that state.
    A logger deletes what it has written after these."""

    def setup(self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None,
              **info: Any) -> None:  # fmt: skip
        """Is called once, before the first trial. `info` has `local_dir` (the experiment's) and `name`."""

    def on_step_begin(self, iteration: int, trials: Sequence[Run], **info: Any) -> None:
        """A step of the loop begins."""

    def on_step_end(self, iteration: int, trials: Sequence[Run], **info: Any) -> None:
        """A step of the loop has ended."""

    def on_trial_start(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial starts, for the first time or again."""

    def on_trial_restore(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial continues from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial is about to save a checkpoint."""

    def on_trial_result(self, iteration: int, trials: Sequence[Run], trial: Run, result: Report,
                        **info: Any) -> None:  # fmt: skip
        """A trial has reported."""

    def on_trial_results(self, iteration: int, trials: Sequence[Run], trial: Run, results: Sequence[Report],
                         **info: Any) -> None:  # fmt: skip
        """A trial has reported these results, in order. Override this if many results can be handled faster at once."""
        for result in results:
            self.on_trial_result(iteration, trials, trial, result, **info)

    def on_trial_complete(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial has ended."""

    def on_trial_recover(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial has failed, and will run again."""

    def on_trial_error(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial has failed, and will not run again."""

    def on_checkpoint(self, iteration: int, trials: Sequence[Run], trial: Run, checkpoint: Any,
                      **info: Any) -> None:  # fmt: skip
        """A trial has saved a checkpoint."""

    def on_experiment_end(self, trials: Sequence[Run], **info: Any) -> None:
        """All trials have ended, or the experiment was interrupted."""

    def flush(self) -> None:
        """Write buffered data to disk: the state of the experiment is about to be saved."""

    def get_state(self) -> dict[str, Any] | None:
        """Return state that must survive a restart of the driver, or None."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` has returned."""
