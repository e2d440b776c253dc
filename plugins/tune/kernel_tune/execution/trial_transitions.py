"""The steps of a trial: it reports, saves, pauses, continues from another trial's state, fails, ends.

Each step changes the trial, calls the search algorithm and the scheduler, and adds instructions. The trial loop decides
when a step is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.reports import DONE, EXPERIMENT_TAG, Report
from kernel_tune.errors import TuneError
from kernel_tune.execution.instructions import (
    Continue,
    DeleteCheckpoint,
    Instruction,
    LoadState,
    Notify,
    Save,
    Start,
    Stop,
    Write,
)
from kernel_tune.execution.progress import Copy, Progress
from kernel_tune.execution.state_copies import StateCopies
from kernel_tune.execution.trial_table import TrialTable
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.trainable.orders import Answer, Saved
from kernel_tune.trial import MetricHistory, Status, Trial

_DECISIONS = (TrialScheduler.CONTINUE, TrialScheduler.PAUSE, TrialScheduler.STOP, TrialScheduler.NOOP)


class TrialTransitions:
    """Takes trials through their steps, and is the `Controller` by which a scheduler asks for steps."""

    def __init__(self, table: TrialTable, algorithm: SearchAlgorithm, scheduler: TrialScheduler) -> None:
        self._table = table
        self._algorithm = algorithm
        self._scheduler = scheduler
        self._copies = StateCopies(table)
        self._instructions: list[Instruction] = []
        self._deciding: Trial | None = None
        """The trial whose result the scheduler is deciding about."""
        self._results: list[Report] = []
        """Results of one trial that callbacks have not been given yet."""

    def take_instructions(self) -> list[Instruction]:
        """Return the instructions that were added since the last call, in their order."""
        instructions, self._instructions = self._instructions, []
        return instructions

    # -- what schedulers see and ask for (see `schedulers.base.Controller`) ----------------------------------------

    def get_trials(self) -> Sequence[Trial]:
        """Return all trials, in the order in which they were made."""
        return self._table.trials

    def get_live_trials(self) -> Sequence[Trial]:
        """Return the trials that have not ended, in the order in which they were made."""
        return list(self._table.live.values())

    def has_resources_for_trial(self, trial: Trial) -> bool:
        """Return whether there is room for the trial now."""
        return self._table.has_room_for(trial)

    def has_resources(self, resources: Any) -> bool:
        """Return whether these resources are free now."""
        return self._table.has_room_for(Trial("", resources=resources))

    def may_make_trials(self) -> bool:
        """Return whether there may be further trials."""
        return not self._table.is_stopping and not self._algorithm.is_finished()

    def stop_trial(self, trial: Trial) -> None:
        """End a trial: when its present step is done if it runs, else at once."""
        if trial.has_ended:
            return
        progress = self._table.progress(trial.trial_id)
        if trial.status is Status.RUNNING:
            progress.stop_asked = True
            if not progress.waits_for and trial is not self._deciding:
                self._end(trial, progress, has_saved=False)
            return
        self._table.set_status(trial, Status.TERMINATED)
        progress.release_donor()
        _mark_done(trial)
        self._instructions.append(Notify("trial_complete", trial))
        self._algorithm.on_trial_complete(trial.trial_id, result=trial.last_result or None, error=False)
        self._scheduler.on_trial_remove(self, trial)

    def pause_trial(self, trial: Trial) -> None:
        """Pause a running trial when its present step is done."""
        if trial.status is Status.RUNNING:
            self._table.progress(trial.trial_id).pause_asked = True
            self._go_on_if_idle(trial)

    def exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], tag: str = "") -> None:
        """Have a trial continue from the newest state of another, with this configuration."""
        giver, copy = self._table.progress(donor.trial_id), Copy(trial.trial_id, config, tag)
        if donor.status is Status.RUNNING:
            self._copies.wait_for(giver, copy)
            self._go_on_if_idle(donor)
        elif self._copies.give(giver, copy) is not None:
            self._go_on_if_idle(trial)

    def set_resources(self, trial: Trial, resources: Any) -> None:
        """Have a trial continue with other resources. A running trial is paused, and started again, for that."""
        self._table.change_demand(trial, resources)
        if trial.status is Status.RUNNING:
            self._table.progress(trial.trial_id).pause_asked = True
            trial.extra["resumes"] = True

    def write_line(self, file_name: str, line: str) -> None:
        """Append a line to a file in the experiment's directory."""
        self._instructions.append(Write(file_name, line))

    # -- what the loop asks for ------------------------------------------------------------------------------------

    def start(self, trial: Trial) -> None:
        """Start a pending or paused trial."""
        progress = self._table.progress(trial.trial_id)
        if trial.status is Status.PAUSED:
            self._algorithm.on_unpause(trial.trial_id)
        self._table.set_status(trial, Status.RUNNING)
        self._instructions.append(Notify("trial_start", trial))
        self._ask(trial, progress, "train", Start(trial, progress.state, trial.results - progress.state_results))

    def stop_all(self, deciding: Trial | None = None) -> None:
        """End all trials, and make no further ones. `deciding` is a trial whose answer is taken right after this."""
        self._table.is_stopping = True
        self._algorithm.set_finished()
        self._deciding = deciding
        for trial in self.get_live_trials():
            self.stop_trial(trial)
        self._deciding = None

    def finish_hung(self, trial: Trial) -> None:
        """End a running trial whose process no longer answers."""
        self._finish(trial, self._table.progress(trial.trial_id), is_hung=True)

    def fail(self, trial: Trial, message: str, raised: bytes = b"") -> None:
        """End a running trial that has failed, or have it run again. `raised` is the pickled exception."""
        progress = self._table.progress(trial.trial_id)
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
        self._algorithm.on_trial_complete(trial.trial_id, result=None, error=True)
        self._scheduler.on_trial_error(self, trial)
        if progress.spec.fail_fast:
            self.stop_all()

    def take_answer(self, trial: Trial, answer: Answer, verdicts: Sequence[bool], asked: str) -> None:
        """Take what the process of a running trial has answered.

        `verdicts` say of each result whether a stop criterion ends the trial after it. `asked` is what the process was
        asked: "train", "pause", "save" or "end".
        """
        progress = self._table.progress(trial.trial_id)
        saved = dict(answer.saved)
        decision = TrialScheduler.CONTINUE
        for number, result in enumerate(answer.results):
            ends = bool(verdicts[number]) if number < len(verdicts) else False
            ends = ends or (answer.ended and number == len(answer.results) - 1 and not answer.error)
            decision = self._take_result(trial, progress, result, saved.get(number), ends)
            if ends or decision == TrialScheduler.STOP:
                self._notify_results(trial)
                self._end(trial, progress, has_saved=number in saved)
                return
            if decision == TrialScheduler.PAUSE:
                progress.pause_asked = True
        self._notify_results(trial)
        if answer.error:
            self.fail(trial, answer.error, answer.raised)
        elif answer.refused:
            self.fail(trial, answer.refused)
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

    # -- results ---------------------------------------------------------------------------------------------------

    def _take_result(self, trial: Trial, progress: Progress, result: Report, saved: Saved | None, ends: bool) -> str:
        result[EXPERIMENT_TAG] = trial.experiment_tag
        decision = TrialScheduler.CONTINUE
        if not ends and not progress.stop_asked:
            self._deciding = trial
            decision = self._scheduler.on_trial_result(self, trial, result)
            self._deciding = None
            if decision not in _DECISIONS:
                raise TuneError(
                    f"{type(self._scheduler).__name__}.on_trial_result() returned {decision!r}: it returns one of "
                    f"{', '.join(_DECISIONS)}, which are names of TrialScheduler"
                )
        if ends or decision == TrialScheduler.STOP:
            result[DONE] = True
        self._algorithm.on_trial_result(trial.trial_id, result)  # after the scheduler, which may note its budget
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
            self._notify_results(trial)
            self._keep(trial, progress, saved)
        return decision

    def _notify_results(self, trial: Trial) -> None:
        """Add one instruction for all results that were taken since the last one."""
        if self._results:
            self._instructions.append(Notify("trial_result", trial, self._results))
            self._results = []

    def _keep(self, trial: Trial, progress: Progress, saved: Saved) -> None:
        """Have the trial continue from this state from now on."""
        progress.release_donor()
        progress.state, progress.state_results = saved, trial.results
        if saved.is_in_memory:
            return
        dropped = progress.book.add(saved, trial.last_result, trial.results)
        self._instructions.append(Notify("checkpoint", trial, checkpoint=saved))
        self._instructions += [DeleteCheckpoint(trial, each) for each in dropped]

    # -- continuing ------------------------------------------------------------------------------------------------

    def _go_on(self, trial: Trial, progress: Progress) -> None:
        """Ask the process of a running trial for what is due next, unless it still owes an answer."""
        if progress.waits_for:
            return
        if progress.stop_asked:
            self._end(trial, progress, has_saved=False)
        elif progress.copies:
            self._ask(trial, progress, "save", Save(trial, "disk"))
        elif progress.pause_asked:
            self._ask(trial, progress, "pause", Save(trial, "disk" if self._scheduler.copies_states else "memory"))
        elif self._copies.take_over(trial):
            self._ask(trial, progress, "train", LoadState(trial, progress.state))
        else:
            self._ask(trial, progress, "train", Continue(trial))

    def _go_on_if_idle(self, trial: Trial) -> None:
        progress = self._table.progress(trial.trial_id)
        if not progress.waits_for and trial is not self._deciding:
            self._go_on(trial, progress)

    def _ask(self, trial: Trial, progress: Progress, what: str, instruction: Instruction) -> None:
        progress.waits_for, progress.goes_on = what, False
        progress.saves_to = instruction.where if isinstance(instruction, Save) else ""
        self._table.outstanding[trial.trial_id] = None
        self._instructions.append(instruction)

    def _paused(self, trial: Trial, progress: Progress, state: Saved | None) -> None:
        progress.pause_asked = False
        if state is not None:
            self._keep(trial, progress, state)
        self._give_copies(progress)
        self._leave(trial, progress, Status.PAUSED)
        self._instructions.append(Stop(trial))
        if trial.extra.pop("resumes", False):
            self._table.set_status(trial, Status.PENDING)
        else:
            self._algorithm.on_pause(trial.trial_id)

    def _saved(self, trial: Trial, progress: Progress, state: Saved | None) -> None:
        if state is not None:
            self._keep(trial, progress, state)
        self._give_copies(progress)
        self._go_on(trial, progress)

    def _give_copies(self, progress: Progress) -> None:
        for trial in self._copies.give_all(progress):
            self._go_on_if_idle(trial)

    # -- ends ------------------------------------------------------------------------------------------------------

    def _end(self, trial: Trial, progress: Progress, has_saved: bool) -> None:
        """End a running trial, after a last save if its policy asks for one or other trials wait for its state."""
        wants = (progress.spec.checkpoints.at_end and not progress.spec.is_function) or bool(progress.copies)
        if wants and not has_saved:
            self._ask(trial, progress, "end", Save(trial, "disk"))
        else:
            self._finish(trial, progress)

    def _finish(self, trial: Trial, progress: Progress, is_hung: bool = False) -> None:
        """End a running trial without an error. If its process `is_hung`, nothing is exported, and it is killed."""
        self._give_copies(progress)
        self._leave(trial, progress, Status.TERMINATED)
        _mark_done(trial)
        exports = [] if is_hung else list(progress.spec.export_formats)
        self._instructions.append(Stop(trial, exports, failed=is_hung))
        self._instructions.append(Notify("trial_complete", trial))
        result = trial.last_result
        self._algorithm.on_trial_complete(trial.trial_id, result=result or None, error=False)
        self._scheduler.on_trial_complete(self, trial, result)

    def _leave(self, trial: Trial, progress: Progress, status: Status) -> None:
        """Give a running trial another status; its resources are free then."""
        self._table.may_start = True
        self._copies.take_over(trial)
        self._table.set_status(trial, status)
        if trial.has_ended:
            progress.release_donor()


def _mark_done(trial: Trial) -> None:
    """Mark the last result of an ended trial as done, also if the end was not known when it was reported."""
    if trial.last_result and not trial.last_result.get(DONE):
        trial.last_result = {**trial.last_result, DONE: True}
