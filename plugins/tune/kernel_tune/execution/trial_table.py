"""The trials of a run: which there are, which of them run, and what of the machines they use."""

from __future__ import annotations

from typing import Any

from kernel_runs.resources import make_request, total
from kernel_tune.execution.progress import Progress
from kernel_tune.execution.resources import Room
from kernel_tune.trial import Status, Trial


class TrialTable:
    """Holds all trials of a run, with their counts and their resources.

    `max_concurrent` is how many trials may run at once; 0 leaves it to the resources. Statuses change by `set_status`
    alone, so that the counts and the resources in use always agree with them.
    """

    def __init__(self, max_concurrent: int = 0) -> None:
        self.max_concurrent = max_concurrent
        self.room = Room()
        self.trials: list[Trial] = []
        """All trials, in the order in which they were made."""
        self.live: dict[str, Trial] = {}
        """The trials that have not ended, by id, in the order in which they were made."""
        self.running = 0
        """The number of trials that are RUNNING."""
        self.pending = 0
        """The number of trials that are PENDING."""
        self.outstanding: dict[str, None] = {}
        """The ids of trials whose process owes an answer, in the order in which the processes were asked."""
        self.is_stopping = False
        """Whether all trials are to end, and no further one is made."""
        self.may_start = True
        """Whether something has changed since trials were last started, so that another one may start now."""
        self._by_id: dict[str, Trial] = {}
        self._progress: dict[str, Progress] = {}

    def add(self, trial: Trial, progress: Progress) -> None:
        """Add a pending trial."""
        self.trials.append(trial)
        self._by_id[trial.trial_id] = trial
        self.live[trial.trial_id] = trial
        self._progress[trial.trial_id] = progress
        self.pending += 1
        self.may_start = True

    def find(self, trial_id: str) -> Trial | None:
        """Return the trial with this id, or None."""
        return self._by_id.get(trial_id)

    def trial(self, trial_id: str) -> Trial:
        """Return the trial with this id. Raises KeyError if there is no such trial."""
        return self._by_id[trial_id]

    def progress(self, trial_id: str) -> Progress:
        """Return what the loop knows of a trial. Raises KeyError if there is no such trial."""
        return self._progress[trial_id]

    def set_status(self, trial: Trial, status: Status) -> None:
        """Change the status of a trial, and with it the counts and the resources in use."""
        demand = self._progress[trial.trial_id].demand
        self.pending += (status is Status.PENDING) - (trial.status is Status.PENDING)
        self.running += (status is Status.RUNNING) - (trial.status is Status.RUNNING)
        if trial.status is Status.RUNNING:
            self.room.give_back(demand)
        if status is Status.RUNNING:
            self.room.take(demand)
        trial.status = status
        if trial.has_ended:
            self.live.pop(trial.trial_id, None)
        else:
            self.live[trial.trial_id] = trial

    @property
    def is_full(self) -> bool:
        """Whether as many trials run as may run at once."""
        return bool(self.max_concurrent) and self.running >= self.max_concurrent

    def has_room_for(self, trial: Trial) -> bool:
        """Return whether a trial could start now. It may be one that is not in the table."""
        if self.is_full:
            return False
        progress = self._progress.get(trial.trial_id)
        request = make_request(trial.resources)
        demand = progress.demand if progress else total(request.bundles())
        return self.room.fits(demand) and self.room.has_places(request)

    def could_run(self, trial: Trial) -> bool:
        """Return whether the machines have what a trial needs, if no other trial runs."""
        return self.room.could_fit(self._progress[trial.trial_id].demand) and self.room.has_places(trial.resources)

    def change_demand(self, trial: Trial, resources: Any) -> None:
        """Give a trial other resources. Those of a running one are taken at once, even where they are not free."""
        progress = self._progress[trial.trial_id]
        trial.resources = make_request(resources)
        demand = total(trial.resources.bundles())
        if trial.status is Status.RUNNING:
            self.room.give_back(progress.demand)
            self.room.take(demand)
        progress.demand = demand

    def paths_in_use(self) -> set[str]:
        """Return the paths of checkpoints that are kept, or that a trial is to continue from."""
        used = set()
        for progress in self._progress.values():
            states = [kept.saved for kept in progress.book.kept]
            states += [each for each in (progress.state, progress.first_state) if each is not None]
            if progress.donor is not None:
                states.append(progress.donor.saved)
            if progress.replacement is not None:
                states.append(progress.replacement.state)
            used |= {saved.path for saved in states if saved.path}
        return used

    def validate(self) -> None:
        """Raise AssertionError if counts, statuses and resources disagree."""
        running = [trial for trial in self.trials if trial.status is Status.RUNNING]
        assert self.running == len(running), (self.running, running)
        assert self.pending == sum(trial.status is Status.PENDING for trial in self.trials)
        assert set(self.live) == {trial.trial_id for trial in self.trials if not trial.has_ended}
        for trial in self.trials:
            progress = self._progress[trial.trial_id]
            assert bool(progress.waits_for) == (trial.trial_id in self.outstanding), trial
            assert trial.status is Status.RUNNING or not progress.waits_for, trial
            assert progress.state_results <= trial.results, trial
        used = total([self._progress[trial.trial_id].demand for trial in running])
        for name in {*used, *self.room.used}:
            assert abs(used.get(name, 0.0) - self.room.used.get(name, 0.0)) < 1e-6, (name, used, self.room.used)
