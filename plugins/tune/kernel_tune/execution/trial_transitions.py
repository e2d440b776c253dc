"""What becomes of a trial: it reports, saves, pauses, goes on from another's state, fails, ends.

The part of the trial loop that is about one trial at a time. It changes the trial, tells the search algorithm and the
scheduler, and notes instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernel_runs.reports import DONE, EXPERIMENT_TAG, Report
from kernel_tune.errors import TuneError
from kernel_tune.execution.instructions import Continue, Delete, Instruction, LoadState, Notify, Save, Stop
from kernel_tune.execution.progress import Copy, Progress, Replacement
from kernel_tune.execution.resources import Room
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.trainable.orders import Answer, Saved
from kernel_tune.trial import MetricHistory, Status, Trial

_DECISIONS = (TrialScheduler.CONTINUE, TrialScheduler.PAUSE, TrialScheduler.STOP, TrialScheduler.NOOP)


class TrialTransitions:
    """All trials of a run, and the steps that each of them can take. See `TrialLoop`, which decides when."""

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
        self.max_concurrent = max_concurrent
        self.room = Room()
        self.trials: list[Trial] = []
        self.outstanding: dict[str, None] = {}
        """The trials whose process was asked something, in the order in which they were."""
        self.is_stopping = False
        self._live: dict[str, Trial] = {}
        self._running = 0
        self._pending = 0
        self._by_id: dict[str, Trial] = {}
        self._progress: dict[str, Progress] = {}
        self._instructions: list[Instruction] = []
        self._deciding: Trial | None = None
        self._results: list[Report] = []
        self._always_asks = type(scheduler).choose_trial_to_run is not TrialScheduler.choose_trial_to_run
        self._may_start = True

    # -- results ---------------------------------------------------------------------------------------------------

    def _take_results(
        self, trial: Trial, progress: Progress, answer: Answer, verdicts: Sequence[bool], asked: str
    ) -> None:
        saved = dict(answer.saved)
        decision = TrialScheduler.CONTINUE
        for number, result in enumerate(answer.results):
            ends = bool(verdicts[number]) if number < len(verdicts) else False
            ends = ends or (answer.ended and number == len(answer.results) - 1 and not answer.error)
            decision = self._take_result(trial, progress, result, saved.get(number), ends)
            if ends or decision == TrialScheduler.STOP:
                self._tell_results(trial)
                self._end(trial, progress, has_saved=number in saved)
                return
            if decision == TrialScheduler.PAUSE:
                progress.pause_asked = True
        self._tell_results(trial)
        if answer.error:
            self._fail(trial, progress, answer.error, answer.raised)
        elif answer.refused:
            self._fail(trial, progress, answer.refused)
        elif asked == "pause" and not progress.stop_asked:
            self._paused(trial, progress, answer.state)
        elif asked == "save":
            self._saved(trial, progress, answer.state)
        elif asked == "end":
            if answer.state is not None:
                self._keep(trial, progress, answer.state)
            self._finish(trial, progress)
        elif answer.ended or progress.stop_asked:
            self._end(trial, progress, has_saved=False)
        elif decision == TrialScheduler.NOOP and not progress.is_asked:
            return
        else:
            self._go_on(trial, progress)

    def _take_result(self, trial: Trial, progress: Progress, result: Report, saved: Saved | None, ends: bool) -> str:
        result[EXPERIMENT_TAG] = trial.experiment_tag
        decision = TrialScheduler.CONTINUE
        if not ends and not progress.stop_asked:
            self._deciding = trial
            decision = self.scheduler.on_trial_result(self, trial, result)
            self._deciding = None
            if decision not in _DECISIONS:
                raise TuneError(
                    f"{type(self.scheduler).__name__}.on_trial_result() returned {decision!r}: it returns one of "
                    f"{', '.join(_DECISIONS)}, which are names of TrialScheduler"
                )
        if ends or decision == TrialScheduler.STOP:
            result[DONE] = True
        self.algorithm.on_trial_result(trial.trial_id, result)  # after the scheduler, which may note the budget for it
        trial.last_result = result
        trial.results += 1
        for key, value in result.items():
            if type(value) in (int, float):
                history = trial.metrics.get(key)
                if history is None:
                    trial.metrics[key] = MetricHistory(value, value, value)
                else:
                    history.add(value)
        self._results.append(result)
        if saved is not None:
            self._tell_results(trial)
            self._keep(trial, progress, saved)
        return decision

    def _tell_results(self, trial: Trial) -> None:
        """Tell who listens of the results that were taken, many at once."""
        if self._results:
            self._instructions.append(Notify("trial_result", trial, self._results))
            self._results = []

    def _keep(self, trial: Trial, progress: Progress, saved: Saved) -> None:
        self._leave_donor(progress)
        progress.state, progress.state_results = saved, trial.results
        if saved.is_in_memory:
            return
        dropped = progress.book.add(saved, trial.last_result, trial.results)
        self._instructions.append(Notify("checkpoint", trial, checkpoint=saved))
        self._instructions += [Delete(trial, each) for each in dropped]

    # -- going on --------------------------------------------------------------------------------------------------

    def _go_on(self, trial: Trial, progress: Progress) -> None:
        if progress.waits_for:
            return
        if progress.stop_asked:
            self._end(trial, progress, has_saved=False)
        elif progress.copies:
            self._ask(trial, progress, "save", Save(trial, "disk"))
        elif progress.pause_asked:
            self._ask(trial, progress, "pause", Save(trial, "disk" if self.scheduler.copies_states else "memory"))
        elif self._replace(trial, progress):
            self._ask(trial, progress, "train", LoadState(trial, progress.state))
        else:
            self._ask(trial, progress, "train", Continue(trial))

    def _go_on_if_idle(self, trial: Trial) -> None:
        progress = self._progress[trial.trial_id]
        if not progress.waits_for and trial is not self._deciding:
            self._go_on(trial, progress)

    def _ask(self, trial: Trial, progress: Progress, what: str, instruction: Instruction) -> None:
        progress.waits_for, progress.goes_on = what, False
        progress.saves_to = instruction.where if isinstance(instruction, Save) else ""
        self.outstanding[trial.trial_id] = None
        self._instructions.append(instruction)

    def _paused(self, trial: Trial, progress: Progress, state: Saved | None) -> None:
        progress.pause_asked = False
        if state is not None:
            self._keep(trial, progress, state)
        self._give_copies(progress)
        self._leave(trial, progress, Status.PAUSED)
        self._instructions.append(Stop(trial))
        if trial.extra.pop("resumes", False):
            trial.status = Status.PENDING
            self._pending += 1
        else:
            self.algorithm.on_pause(trial.trial_id)

    def _saved(self, trial: Trial, progress: Progress, state: Saved | None) -> None:
        if state is not None:
            self._keep(trial, progress, state)
        self._give_copies(progress)
        self._go_on(trial, progress)

    def _give_copies(self, progress: Progress) -> None:
        copies, progress.copies = progress.copies, []
        for copy in copies:
            self._progress[copy.trial_id].donors -= 1
            self._may_start = True
            self._give_copy(progress, copy)

    def _give_copy(self, giver: Progress, copy: Copy) -> None:
        """Have a trial go on from what another saved last, now or when its process has done what it was asked.

        Where nothing was saved the trial goes on as it is.
        """
        trial = self._by_id[copy.trial_id]
        progress = self._progress[copy.trial_id]
        if trial.has_ended:
            return
        if giver.state is not None:
            newest = giver.book.newest
            donor = newest if newest is not None and giver.state is newest.saved else None
            if donor is not None:
                donor.users += 1
            progress.replacement = Replacement(copy, giver.state, donor)
        if trial.status is Status.RUNNING:
            progress.goes_on = True
            self._go_on_if_idle(trial)
        else:
            self._replace(trial, progress)

    def _replace(self, trial: Trial, progress: Progress) -> bool:
        """Give a trial the state and configuration that it is to go on with; return whether there was one."""
        if progress.replacement is None:
            return False
        copy, state, donor = progress.replacement
        progress.replacement = None
        self._leave_donor(progress)
        progress.donor, progress.state, progress.state_results = donor, state, trial.results
        trial.config = copy.config
        if copy.tag:
            trial.experiment_tag = f"{trial.experiment_tag.split('@')[0]}@{copy.tag}"
        return True

    def _leave_donor(self, progress: Progress) -> None:
        if progress.donor is not None:
            progress.donor.users -= 1
            progress.donor = None

    # -- ends ------------------------------------------------------------------------------------------------------

    def _end(self, trial: Trial, progress: Progress, has_saved: bool) -> None:
        """A running trial ends well: it saves before if it should, or if others wait for its state."""
        wants = (progress.spec.checkpoints.at_end and not progress.spec.is_function) or bool(progress.copies)
        if wants and not has_saved:
            self._ask(trial, progress, "end", Save(trial, "disk"))
        else:
            self._finish(trial, progress)

    def _finish(self, trial: Trial, progress: Progress, is_hung: bool = False) -> None:
        """A running trial has ended well, or is ended although it `is_hung`: its process is of no use then."""
        self._give_copies(progress)
        self._leave(trial, progress, Status.TERMINATED)
        _mark_done(trial)
        exports = [] if is_hung else list(progress.spec.export_formats)
        self._instructions.append(Stop(trial, exports, failed=is_hung))
        self._instructions.append(Notify("trial_complete", trial))
        result = trial.last_result
        self.algorithm.on_trial_complete(trial.trial_id, result=result or None, error=False)
        self.scheduler.on_trial_complete(self, trial, result)

    def _fail(self, trial: Trial, progress: Progress, message: str, raised: bytes = b"") -> None:
        trial.failures += 1
        trial.error_message, trial.raised = message, raised
        limit = progress.spec.max_failures
        self._give_copies(progress)
        may_run_again = limit < 0 or trial.failures <= limit
        if may_run_again and not (progress.spec.fail_fast or progress.stop_asked):
            self._leave(trial, progress, Status.PENDING)
            self._instructions.append(Stop(trial, failed=True))
            self._instructions.append(Notify("trial_recover", trial))
            return
        self._leave(trial, progress, Status.ERROR)
        self._instructions.append(Stop(trial, failed=True))
        self._instructions.append(Notify("trial_error", trial))
        self.algorithm.on_trial_complete(trial.trial_id, result=None, error=True)
        self.scheduler.on_trial_error(self, trial)
        if progress.spec.fail_fast:
            self._ask_all_to_stop()

    def _ask_to_stop(self, trial: Trial) -> None:
        if trial.has_ended:
            return
        progress = self._progress[trial.trial_id]
        if trial.status is Status.RUNNING:
            progress.stop_asked = True
            if not progress.waits_for and trial is not self._deciding:
                self._end(trial, progress, has_saved=False)
            return
        if trial.status is Status.PENDING:
            self._pending -= 1
        trial.status = Status.TERMINATED
        self._live.pop(trial.trial_id, None)
        self._leave_donor(progress)
        _mark_done(trial)
        self._instructions.append(Notify("trial_complete", trial))
        self.algorithm.on_trial_complete(trial.trial_id, result=trial.last_result or None, error=False)
        self.scheduler.on_trial_remove(self, trial)

    def _ask_all_to_stop(self) -> None:
        self.is_stopping = True
        self.algorithm.set_finished()
        for trial in list(self._live.values()):
            self._ask_to_stop(trial)

    def _leave(self, trial: Trial, progress: Progress, status: Status) -> None:
        """A running trial runs no longer."""
        self._may_start = True
        self._replace(trial, progress)
        self.room.give_back(progress.demand)
        self._running -= 1
        trial.status = status
        if status is Status.PENDING:
            self._pending += 1
        elif trial.has_ended:
            self._live.pop(trial.trial_id, None)
            self._leave_donor(progress)


def _mark_done(trial: Trial) -> None:
    """The last result of a trial that has ended well says so, also where nobody knew when it was reported."""
    if trial.last_result and not trial.last_result.get(DONE):
        trial.last_result = {**trial.last_result, DONE: True}
