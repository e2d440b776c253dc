"""The trial loop: which instructions follow from what trials report. It has no clock, no processes and no files.

It holds the trials, the search algorithm and the scheduler. Each event returns instructions, which the caller carries
out in their order. The same events give the same instructions, so that an experiment resumes by repeating the events
that its log has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.resources import Demand, total
from kernel_tune.execution.checkpoint_book import CheckpointBook
from kernel_tune.execution.code_reload import reload_code
from kernel_tune.execution.instructions import Instruction
from kernel_tune.execution.older_states import state_in_parts
from kernel_tune.execution.progress import Progress
from kernel_tune.execution.resources import Room
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.execution.trial_table import TrialTable
from kernel_tune.execution.trial_transitions import TrialTransitions
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.trainable.orders import Answer, Saved
from kernel_tune.trial import Status, Trial


class TrialLoop:
    """Decides about all trials. Events are its methods `on_answer`, `on_failure` ...; each returns instructions.

    `max_concurrent` is how many trials may run at once; 0 leaves it to the resources.
    """

    def __init__(
        self,
        specs: Sequence[ExperimentSpec],
        algorithm: SearchAlgorithm,
        scheduler: TrialScheduler,
        max_concurrent: int = 0,
    ) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self.algorithm = algorithm
        self.scheduler = scheduler
        self._table = TrialTable(max_concurrent)
        self._transitions = TrialTransitions(self._table, algorithm, scheduler)
        self._always_asks = type(scheduler).choose_trial_to_run is not TrialScheduler.choose_trial_to_run

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what `pickle` has kept, also by a version that had all of it in this class."""
        self.__dict__.update(state if "_table" in state else state_in_parts(state))

    # -- events ----------------------------------------------------------------------------------------------------

    def set_capacity(self, capacity: Demand, nodes: Sequence[Demand] = ()) -> list[Instruction]:
        """Take what the machines have now: `capacity` is all together, `nodes` is each of them."""
        self.room.capacity, self.room.nodes = dict(capacity), list(nodes)
        self._table.may_start = True
        return self._turn()

    def on_answer(self, trial_id: str, answer: Answer, verdicts: Sequence[bool] = (), stop_all: bool = False
                  ) -> list[Instruction]:  # fmt: skip
        """Take the answer of a trial's process.

        `verdicts` say of each result whether a stop criterion ends the trial after it; with `stop_all` one ends all.
        """
        trial = self._table.trial(trial_id)
        asked = self._settle(trial_id)
        if answer.process[1]:
            trial.location = "{}:{}".format(*answer.process)
        if trial.status is Status.RUNNING:
            if stop_all:
                self._transitions.stop_all(deciding=trial)
            self._transitions.take_answer(trial, answer, verdicts, asked)
        return self._turn()

    def on_failure(self, trial_id: str, message: str) -> list[Instruction]:
        """Take it that the process of a trial has died, or could not be started."""
        trial = self._table.trial(trial_id)
        self._settle(trial_id)
        if trial.status is Status.RUNNING:
            self._transitions.fail(trial, message)
        return self._turn()

    def stop_trial(self, trial: Trial | str) -> list[Instruction]:
        """End a trial, given itself or by id: when its present step is done if it runs, else at once."""
        self._transitions.stop_trial(self._table.trial(trial) if isinstance(trial, str) else trial)
        return self._turn()

    def stop_all(self) -> list[Instruction]:
        """End all trials, and make no further ones."""
        self._transitions.stop_all()
        return self._turn()

    def abandon(self, trial_id: str) -> list[Instruction]:
        """End a running trial without waiting for the answer that its process owes."""
        trial = self._table.trial(trial_id)
        self._settle(trial_id)
        if trial.status is Status.RUNNING:
            self._transitions.finish_hung(trial)
        return self._turn()

    def add_trial(self, spec: ExperimentSpec, trial: Trial) -> list[Instruction]:
        """Add a trial that the search algorithm has not made, and the experiment of it if that is new."""
        self.specs.setdefault(spec.name, spec)
        self._add(trial)
        return self._turn()

    def retry(self, trial_id: str, anew: bool) -> list[Instruction]:
        """Have a failed trial run again: from its last checkpoint, or `anew`, without what it had reported."""
        trial, progress = self._table.trial(trial_id), self._table.progress(trial_id)
        if trial.status is not Status.ERROR:
            return self._turn()
        trial.failures, trial.error_message, trial.raised = 0, "", b""
        self._table.set_status(trial, Status.PENDING)
        self._table.may_start = True
        if anew:
            progress.state, progress.state_results = progress.first_state, 0
            trial.results, trial.last_result, trial.metrics = 0, {}, {}
        return self._turn()

    def on_damage(self, trial_id: str) -> list[Instruction]:
        """Give a trial whose checkpoint is damaged the one before that; without one it begins anew.

        What its process was asked stays asked: the caller asks it again.
        """
        progress = self._table.progress(trial_id)
        progress.release_donor()
        if progress.state is not None:
            progress.book.forget(progress.state.path)
        _use_newest_checkpoint(progress)
        return self._turn()

    def _settle(self, trial_id: str) -> str:
        """Note that the process of a trial owes no answer now. Return what it was asked."""
        progress = self._table.progress(trial_id)
        self.outstanding.pop(trial_id, None)
        asked, progress.waits_for = progress.waits_for, ""
        return asked

    # -- starting --------------------------------------------------------------------------------------------------

    def _turn(self) -> list[Instruction]:
        """Make trials for the room that is free, start those that may start, and return all instructions."""
        table = self._table
        if table.may_start or self._always_asks or not table.pending:
            while not table.is_stopping and (self._make_one() or self._start_one()):
                pass
            table.may_start = False
        return self._transitions.take_instructions()

    def _start_one(self) -> bool:
        """Start a trial, if the scheduler has one. Return whether one was started."""
        table = self._table
        if table.is_full or table.running == len(table.live):
            return False
        trial = self.scheduler.choose_trial_to_run(self._transitions)
        if trial is None or trial.status not in (Status.PENDING, Status.PAUSED):
            return False
        if table.progress(trial.trial_id).donors:  # from its own state it would report what is then thrown away
            return False
        self._transitions.start(trial)
        return True

    def _make_one(self) -> bool:
        """Make a trial, unless one is pending or a new one would find no room. Return whether one was made."""
        if self._table.pending or self.algorithm.is_finished() or self._table.is_full:
            return False
        if len(self.specs) == 1:
            request = next(iter(self.specs.values())).fixed_request
            if request is not None and not self.room.fits(total(request.bundles())) and self._table.running:
                return False
        trial = self.algorithm.next_trial()
        if trial is None:
            return False
        self._add(trial)
        return True

    def _add(self, trial: Trial) -> None:
        spec = self.specs[trial.extra["experiment"]]
        if trial.resources is None:
            trial.resources = spec.request_for(trial.config)
        policy = spec.checkpoints
        progress = Progress(
            spec,
            total(trial.resources.bundles()),
            CheckpointBook(policy.keep, policy.score_attribute, policy.lowest),
        )
        if spec.restore_path:
            progress.state = progress.first_state = Saved(0, spec.restore_path)
        self._table.add(trial, progress)
        self.scheduler.on_trial_add(self._transitions, trial)

    # -- after a kill ----------------------------------------------------------------------------------------------

    def adopt(self, fresh: TrialLoop) -> None:
        """Take over the code of a loop that the present program has made, in which mistakes may be corrected."""
        reload_code(self.algorithm, fresh.algorithm)
        reload_code(self.scheduler, fresh.scheduler)

    def forget_states_in_memory(self) -> None:
        """Have trials whose state was in memory continue from what they have on disk, or from their beginning."""
        for trial in self._table.live.values():
            progress = self.progress_of(trial)
            if progress.state is not None and progress.state.is_in_memory:
                _use_newest_checkpoint(progress)

    def paths_in_use(self) -> set[str]:
        """Return the paths of checkpoints that are kept, or that a trial is to continue from."""
        return self._table.paths_in_use()

    # -- questions -------------------------------------------------------------------------------------------------

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order in which they were made."""
        return self._table.trials

    @property
    def room(self) -> Room:
        """What the machines have, and what trials use of it."""
        return self._table.room

    @property
    def outstanding(self) -> dict[str, None]:
        """The ids of trials whose process owes an answer, in the order in which the processes were asked."""
        return self._table.outstanding

    @property
    def is_stopping(self) -> bool:
        """Whether all trials are to end, and no further one is made."""
        return self._table.is_stopping

    def get_live_trials(self) -> Sequence[Trial]:
        """Return the trials that have not ended, in the order in which they were made."""
        return list(self._table.live.values())

    def find(self, trial_id: str) -> Trial | None:
        """Return the trial with this id, or None."""
        return self._table.find(trial_id)

    def progress_of(self, trial: Trial) -> Progress:
        """Return what the loop knows of a trial besides what the trial itself says."""
        return self._table.progress(trial.trial_id)

    def could_run(self, trial: Trial) -> bool:
        """Return whether the machines have what a trial needs, if no other trial runs."""
        return self._table.could_run(trial)

    @property
    def is_finished(self) -> bool:
        """Whether every trial has ended and there will be no other."""
        return not self._table.live and (self.is_stopping or self.algorithm.is_finished())

    @property
    def is_stuck(self) -> bool:
        """Whether nothing runs, and nothing will: trials wait that the scheduler does not start, or none is made."""
        return not self.is_finished and not self.outstanding

    def why_stuck(self) -> str:
        """Return what is missing when nothing runs."""
        for trial in self._table.live.values():
            demand = self.progress_of(trial).demand
            if not self.room.could_fit(demand):
                there = _listed(self.room.capacity)
                return f"trial {trial} needs {_listed(demand)}, and all machines together have {there}"
            if not self.room.has_places(trial.resources):
                wanted = " and ".join(map(_listed, trial.resources.bundles()))
                there = "; ".join(map(_listed, self.room.nodes))
                return f"trial {trial} needs {wanted} ({trial.resources.strategy}), and the machines have {there}"
        if self._table.live:
            return (
                f"the scheduler {type(self.scheduler).__name__} starts no trial, although machines have room for "
                f"each that is pending or paused ({len(self._table.live)}); its choose_trial_to_run() must return "
                "one of them"
            )
        return (
            "the searcher suggests no configuration, although no trial runs for whose result it could wait; it must "
            "suggest one, or say that it is finished (Searcher.FINISHED)"
        )

    def validate(self) -> None:
        """Raise AssertionError if counts, statuses and resources disagree."""
        self._table.validate()


def _use_newest_checkpoint(progress: Progress) -> None:
    """Have a trial continue from its newest checkpoint on disk; without one, from what it was to begin with."""
    kept = progress.book.newest
    progress.state, progress.state_results = (kept.saved, kept.results) if kept else (progress.first_state, 0)


def _listed(demand: Demand) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(demand.items())) or "nothing"
