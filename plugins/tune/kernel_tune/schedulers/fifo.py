"""Every trial runs to its end, in the order in which they were made."""

from __future__ import annotations

from kernel_tune.schedulers.base import Controller, TrialScheduler
from kernel_tune.schedulers.common import first_that_fits
from kernel_tune.trial import Status, Trial


class FIFOScheduler(TrialScheduler):
    """Starts trials in the order in which they were made, and stops none: the default."""

    def choose_trial_to_run(self, runner: Controller) -> Trial | None:
        """Return the first pending trial that fits, or else the first paused one that does."""
        live = runner.get_live_trials()
        pending = first_that_fits(runner, (trial for trial in live if trial.status is Status.PENDING))
        return pending or first_that_fits(runner, (trial for trial in live if trial.status is Status.PAUSED))

    def debug_string(self) -> str:
        """Return the line for the status block."""
        return "Using FIFO scheduling algorithm."
