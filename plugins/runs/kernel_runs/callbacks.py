"""What may be called as runs go on: loggers and users' callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.reports import Report
from kernel_runs.run import Run


class Callback:
    """Hears what happens, on the driver, in the thread that looks after the runs, in the order in which it happens.

    The methods call a run a trial: it is one of several, or the only one. `iteration` counts the steps of the loop that
    looks after them, `trials` are all of them. A callback that raises ends the experiment with a RunError that names
    it, and has its error as the cause, with everything saved.
    """

    hears_again = False
    """Whether it is told again what happened between the last time the state was written down and a kill, when an
    experiment resumes. Of each trial it first hears a start, with the number of results that it had then: what was
    written after them is to be cut off. For loggers."""

    def setup(self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None,
              **info: Any) -> None:  # fmt: skip
        """Called once, before the first trial. `info` has `local_dir` (the experiment's) and `name`."""

    def on_step_begin(self, iteration: int, trials: Sequence[Run], **info: Any) -> None:
        """A step of the loop begins."""

    def on_step_end(self, iteration: int, trials: Sequence[Run], **info: Any) -> None:
        """A step of the loop has ended."""

    def on_trial_start(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial runs, for the first time or again."""

    def on_trial_restore(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial goes on from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial is about to save a checkpoint."""

    def on_trial_result(self, iteration: int, trials: Sequence[Run], trial: Run, result: Report,
                        **info: Any) -> None:  # fmt: skip
        """A trial has reported."""

    def on_trial_results(self, iteration: int, trials: Sequence[Run], trial: Run, results: Sequence[Report],
                         **info: Any) -> None:  # fmt: skip
        """A trial has reported these results, in order. Override this where many at once can be taken quicker."""
        for result in results:
            self.on_trial_result(iteration, trials, trial, result, **info)

    def on_trial_complete(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial has ended."""

    def on_trial_recover(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial has failed and is tried again."""

    def on_trial_error(self, iteration: int, trials: Sequence[Run], trial: Run, **info: Any) -> None:
        """A trial has failed for good."""

    def on_checkpoint(self, iteration: int, trials: Sequence[Run], trial: Run, checkpoint: Any,
                      **info: Any) -> None:  # fmt: skip
        """A trial has saved a checkpoint."""

    def on_experiment_end(self, trials: Sequence[Run], **info: Any) -> None:
        """All trials have ended, or the experiment was interrupted."""

    def flush(self) -> None:
        """Have what was written on the disk: the state of the experiment is about to be written down."""

    def get_state(self) -> dict[str, Any] | None:
        """Return what must survive, or None."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` has returned."""
