"""Trials that continue from the state of another trial, as those of a population do."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_tune.execution.progress import Copy, Progress, Replacement
from kernel_tune.execution.trial_table import TrialTable
from kernel_tune.trial import Status, Trial


class StateCopies:
    """Hands the states of donors to the trials that wait for them."""

    def __init__(self, table: TrialTable) -> None:
        self._table = table

    def wait_for(self, donor: Progress, copy: Copy) -> None:
        """Have a trial wait until a running donor has saved its state."""
        donor.copies.append(copy)
        self._table.progress(copy.trial_id).donors += 1

    def give_all(self, donor: Progress) -> Iterator[Trial]:
        """Give the donor's last state to all trials that wait for it. Yields those that run, one by one."""
        copies, donor.copies = donor.copies, []
        for copy in copies:
            self._table.progress(copy.trial_id).donors -= 1
            self._table.may_start = True
            trial = self.give(donor, copy)
            if trial is not None:
                yield trial

    def give(self, donor: Progress, copy: Copy) -> Trial | None:
        """Give the donor's last state to one trial. Return the trial if it runs, None otherwise.

        A running trial takes the state over when its process has answered. If the donor has saved nothing, the trial
        continues from its own state.
        """
        trial = self._table.trial(copy.trial_id)
        progress = self._table.progress(copy.trial_id)
        if trial.has_ended:
            return None
        if donor.state is not None:
            newest = donor.book.newest
            kept = newest if newest is not None and donor.state is newest.saved else None
            if kept is not None:
                kept.users += 1
            progress.replacement = Replacement(copy, donor.state, kept)
        if trial.status is Status.RUNNING:
            progress.goes_on = True
            return trial
        self.take_over(trial)
        return None

    def take_over(self, trial: Trial) -> bool:
        """Give a trial the state and the configuration that wait for it. Return False if none do."""
        progress = self._table.progress(trial.trial_id)
        if progress.replacement is None:
            return False
        copy, state, donor = progress.replacement
        progress.replacement = None
        progress.release_donor()
        progress.donor, progress.state, progress.state_results = donor, state, trial.results
        trial.config = copy.config
        if copy.tag:
            trial.experiment_tag = f"{trial.experiment_tag.split('@')[0]}@{copy.tag}"
        return True
