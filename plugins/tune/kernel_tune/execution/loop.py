"""The trial loop: what comes in from trials, and what is to be done about it. No clock, no processes, no files.

It owns the trials and asks the search algorithm and the scheduler. Whoever calls it carries out the instructions that it
returns, in order. It gives the same instructions for the same calls, so that an experiment resumes by making the calls
again that its log has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_tune.execution.checkpoint_book import CheckpointBook
from kernel_tune.execution.instructions import (
    Continue,
    Delete,
    Instruction,
    Load,
    Notify,
    Save,
    Start,
    Stop,
    Write,
)
from kernel_tune.execution.progress import Copy, Progress, Replacement
from kernel_tune.execution.resources import Demand, Room, make_request, total
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.result import EXPERIMENT_TAG, Result
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.trainable.orders import Answer, Saved
from kernel_tune.trial import MetricHistory, Status, Trial


class TrialLoop:
    """Decides about all trials. Events are its methods `begin`, `on_answer`, `on_failure` ...; each returns instructions.

    `max_concurrent` bounds how many trials run at once (0: only resources do).
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
        self.max_concurrent = max_concurrent
        self.room = Room()
        self.trials: list[Trial] = []
        self.outstanding: dict[str, None] = {}
        """The trials whose process was asked something, in the order in which they were."""
        self.is_stopping = False
        self.failure = ""
        """Why everything stops, where a trial that failed is the reason."""
        self._live: dict[str, Trial] = {}
        self._running = 0
        self._pending = 0
        self._by_id: dict[str, Trial] = {}
        self._progress: dict[str, Progress] = {}
        self._instructions: list[Instruction] = []
        self._deciding: Trial | None = None
        self._results: list[Result] = []
        self._always_asks = type(scheduler).choose_trial_to_run is not TrialScheduler.choose_trial_to_run
        self._may_start = True

    # -- events ----------------------------------------------------------------------------------------------------

    def set_capacity(self, capacity: Demand) -> list[Instruction]:
        """The machines have so much now."""
        self.room.capacity = dict(capacity)
        self._may_start = True
        return self._turn()

    def on_answer(self, trial_id: str, answer: Answer, verdicts: Sequence[bool] = (), stop_all: bool = False
                  ) -> list[Instruction]:  # fmt: skip
        """The process of a trial has answered. `verdicts` say after which results a stop criterion ends the trial."""
        trial, progress = self._by_id[trial_id], self._progress[trial_id]
        self.outstanding.pop(trial_id, None)
        asked, progress.waits_for = progress.waits_for, ""
        if answer.process[1]:
            trial.location = "{}:{}".format(*answer.process)
        if trial.status is Status.RUNNING:
            if stop_all:
                self._deciding = trial
                self._ask_all_to_stop()
                self._deciding = None
            self._take_results(trial, progress, answer, verdicts, asked)
        return self._turn()

    def on_failure(self, trial_id: str, message: str) -> list[Instruction]:
        """The process of a trial has died, or could not be started."""
        trial, progress = self._by_id[trial_id], self._progress[trial_id]
        self.outstanding.pop(trial_id, None)
        progress.waits_for = ""
        if trial.status is Status.RUNNING:
            self._fail(trial, progress, message)
        return self._turn()

    def stop_trial(self, trial: Trial | str) -> list[Instruction] | None:
        """End a trial: when its present step is done if it runs, at once if not."""
        trial = self._by_id[trial] if isinstance(trial, str) else trial
        self._ask_to_stop(trial)
        return self._turn() if self._deciding is None and not self._instructions else None

    def stop_all(self) -> list[Instruction]:
        """End all trials, and make no further ones."""
        self._ask_all_to_stop()
        return self._turn()

    def add_trial(self, spec: ExperimentSpec, trial: Trial) -> list[Instruction]:
        """Take a trial that somebody else has made."""
        self.specs.setdefault(spec.name, spec)
        self._add(trial)
        return self._turn()

    # -- what schedulers see (see `schedulers.base.Controller`) ----------------------------------------------------

    def get_trials(self) -> Sequence[Trial]:
        """Return all trials, in the order in which they were made."""
        return self.trials

    def get_live_trials(self) -> Sequence[Trial]:
        """Return the trials that have not ended, in the order in which they were made."""
        return list(self._live.values())

    def has_resources_for_trial(self, trial: Trial) -> bool:
        """Return whether there is room for the trial now."""
        if self.max_concurrent and self._running >= self.max_concurrent:
            return False
        return self.room.fits(self._progress[trial.trial_id].demand)

    def may_make_trials(self) -> bool:
        """Return whether there may be further trials."""
        return not self.is_stopping and not self.algorithm.is_finished()

    def pause_trial(self, trial: Trial) -> None:
        """Pause a running trial when its present step is done."""
        if trial.status is Status.RUNNING:
            self._progress[trial.trial_id].pause_asked = True
            self._go_on_if_idle(trial)

    def exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], tag: str = "") -> None:
        """Have a trial go on from the newest state of another."""
        giver, copy = self._progress[donor.trial_id], Copy(trial.trial_id, config, tag)
        if donor.status is Status.RUNNING:
            giver.copies.append(copy)
            self._go_on_if_idle(donor)
        else:
            self._give_copy(giver, copy)

    def set_resources(self, trial: Trial, resources: Any) -> None:
        """Have a trial go on with other resources."""
        request = make_request(resources)
        progress = self._progress[trial.trial_id]
        trial.resources = request
        demand = total(request.bundles())
        if trial.status is Status.RUNNING:
            self.room.give_back(progress.demand)
            self.room.take(demand)
            progress.demand = demand
            progress.pause_asked = True
            trial.extra["resumes"] = True
        else:
            progress.demand = demand

    def write_line(self, file_name: str, line: str) -> None:
        """Append a line to a file in the experiment's directory."""
        self._instructions.append(Write(file_name, line))

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
            self._fail(trial, progress, answer.error)
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
        elif decision == TrialScheduler.NOOP and not progress.pause_asked and not progress.copies:
            return
        else:
            self._go_on(trial, progress)

    def _take_result(self, trial: Trial, progress: Progress, result: Result, saved: Saved | None, ends: bool) -> str:
        result[EXPERIMENT_TAG] = trial.experiment_tag
        self.algorithm.on_trial_result(trial.trial_id, result)
        decision = TrialScheduler.CONTINUE
        if not ends and not progress.stop_asked:
            self._deciding = trial
            decision = self.scheduler.on_trial_result(self, trial, result)
            self._deciding = None
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
            self._ask(trial, progress, "train", Load(trial, progress.state))
        else:
            self._ask(trial, progress, "train", Continue(trial))

    def _go_on_if_idle(self, trial: Trial) -> None:
        progress = self._progress[trial.trial_id]
        if not progress.waits_for and trial is not self._deciding:
            self._go_on(trial, progress)

    def _ask(self, trial: Trial, progress: Progress, what: str, instruction: Instruction) -> None:
        progress.waits_for = what
        progress.saves_to = instruction.where if isinstance(instruction, Save) else ""
        self.outstanding[trial.trial_id] = None
        self._instructions.append(instruction)

    def _paused(self, trial: Trial, progress: Progress, state: Saved | None) -> None:
        progress.pause_asked = False
        if state is not None:
            self._keep(trial, progress, state)
        self._leave(trial, progress, Status.PAUSED)
        self._instructions.append(Stop(trial))
        if trial.extra.pop("resumes", False):
            trial.status = Status.PENDING
            self._pending += 1

    def _saved(self, trial: Trial, progress: Progress, state: Saved | None) -> None:
        if state is not None:
            self._keep(trial, progress, state)
        self._give_copies(progress)
        self._go_on(trial, progress)

    def _give_copies(self, progress: Progress) -> None:
        copies, progress.copies = progress.copies, []
        for copy in copies:
            self._give_copy(progress, copy)

    def _give_copy(self, giver: Progress, copy: Copy) -> None:
        """Have a trial go on from what another saved last, now or when its process has done what it was asked.

        Where nothing was saved the trial goes on as it is.
        """
        trial = self._by_id[copy.trial_id]
        progress = self._progress[copy.trial_id]
        if trial.is_finished:
            return
        if giver.state is not None:
            newest = giver.book.newest
            donor = newest if newest is not None and giver.state is newest.saved else None
            if donor is not None:
                donor.users += 1
            progress.replacement = Replacement(copy, giver.state, donor)
        if trial.status is Status.RUNNING:
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

    def _finish(self, trial: Trial, progress: Progress) -> None:
        self._give_copies(progress)
        self._leave(trial, progress, Status.TERMINATED)
        self._instructions.append(Stop(trial, list(progress.spec.export_formats)))
        self._instructions.append(Notify("trial_complete", trial))
        result = trial.last_result
        self.algorithm.on_trial_complete(trial.trial_id, result or None, error=False)
        self.scheduler.on_trial_complete(self, trial, result)

    def _fail(self, trial: Trial, progress: Progress, message: str) -> None:
        trial.failures += 1
        trial.error_message = message
        limit = progress.spec.max_failures
        self._give_copies(progress)
        if progress.spec.fail_fast:
            self.failure = self.failure or f"trial {trial} failed:\n{message}"
        elif (limit < 0 or trial.failures <= limit) and not progress.stop_asked:
            self._leave(trial, progress, Status.PENDING)
            self._instructions.append(Stop(trial, failed=True))
            self._instructions.append(Notify("trial_recover", trial))
            return
        self._leave(trial, progress, Status.ERROR)
        self._instructions.append(Stop(trial, failed=True))
        self._instructions.append(Notify("trial_error", trial))
        self.algorithm.on_trial_complete(trial.trial_id, trial.last_result or None, error=True)
        self.scheduler.on_trial_error(self, trial)
        if progress.spec.fail_fast:
            self._ask_all_to_stop()

    def _ask_to_stop(self, trial: Trial) -> None:
        if trial.is_finished:
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
        self._instructions.append(Notify("trial_complete", trial))
        self.algorithm.on_trial_complete(trial.trial_id, trial.last_result or None, error=False)
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
        elif trial.is_finished:
            self._live.pop(trial.trial_id, None)
            self._leave_donor(progress)

    # -- beginning -------------------------------------------------------------------------------------------------

    def _turn(self) -> list[Instruction]:
        """Start what may be started, make new trials for what is free, and return all instructions."""
        if self._may_start or self._always_asks or not self._pending:
            while not self.is_stopping and (self._start_one() or self._make_one()):
                pass
            self._may_start = False
        instructions, self._instructions = self._instructions, []
        return instructions

    def _start_one(self) -> bool:
        if self.max_concurrent and self._running >= self.max_concurrent:
            return False
        if self._running == len(self._live):
            return False
        trial = self.scheduler.choose_trial_to_run(self)
        if trial is None or trial.status not in (Status.PENDING, Status.PAUSED):
            return False
        progress = self._progress[trial.trial_id]
        if trial.status is Status.PENDING:
            self._pending -= 1
        trial.status = Status.RUNNING
        self._running += 1
        self.room.take(progress.demand)
        self._instructions.append(Notify("trial_start", trial))
        skip = trial.results - progress.state_results
        self._ask(trial, progress, "train", Start(trial, progress.state, skip))
        return True

    def _make_one(self) -> bool:
        """Make a trial, if none waits to be started and one would find room."""
        if self._pending or self.algorithm.is_finished():
            return False
        if self.max_concurrent and self._running >= self.max_concurrent:
            return False
        if len(self.specs) == 1:
            request = next(iter(self.specs.values())).fixed_request
            if request is not None and not self.room.fits(total(request.bundles())) and self._running:
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
        self.trials.append(trial)
        self._by_id[trial.trial_id] = trial
        self._live[trial.trial_id] = trial
        self._progress[trial.trial_id] = progress
        self._pending += 1
        self._may_start = True
        self.scheduler.on_trial_add(self, trial)

    # -- after a kill ----------------------------------------------------------------------------------------------

    def adopt(self, fresh: TrialLoop) -> None:
        """Take from a loop that was made anew what is not written down: what trainables are and need."""
        for name, spec in self.specs.items():
            known = fresh.specs.get(name)
            if known is not None:
                spec.trainable, spec.resources = known.trainable, known.resources

    def forget_states_in_memory(self) -> None:
        """The states that were in memory are gone: trials go on from what they have on disk, or from the beginning."""
        for trial in self._live.values():
            progress = self._progress[trial.trial_id]
            if progress.state is None or not progress.state.is_in_memory:
                continue
            kept = progress.book.newest
            progress.state, progress.state_results = (kept.saved, kept.results) if kept else (progress.first_state, 0)

    # -- questions -------------------------------------------------------------------------------------------------

    def find(self, trial_id: str) -> Trial | None:
        """Return the trial with this id."""
        return self._by_id.get(trial_id)

    def progress_of(self, trial: Trial) -> Progress:
        """Return what is known of a trial beside what everybody sees."""
        return self._progress[trial.trial_id]

    def could_run(self, trial: Trial) -> bool:
        """Return whether all machines together have what a trial needs."""
        return self.room.could_fit(self._progress[trial.trial_id].demand)

    @property
    def is_finished(self) -> bool:
        """Whether every trial has ended and there will be no other."""
        return not self._live and (self.is_stopping or self.algorithm.is_finished())

    @property
    def is_stuck(self) -> bool:
        """Whether nothing runs, and nothing will: trials wait that nobody starts, or none comes."""
        return not self.is_finished and not self.outstanding

    def why_stuck(self) -> str:
        """Say what is missing when nothing runs."""
        for trial in self._live.values():
            demand = self._progress[trial.trial_id].demand
            if not self.room.could_fit(demand):
                return f"trial {trial} needs {_listed(demand)}, and all machines together have {_listed(self.room.capacity)}"
        if self._live:
            return (
                f"{type(self.scheduler).__name__} starts none of the {len(self._live)} trials that are pending or paused, "
                "and there is room for them"
            )
        return "the searcher has no configuration just now, and no trial runs whose end could bring one"

    def validate(self) -> None:
        """Raise AssertionError where what must always be true is not."""
        running = [trial for trial in self.trials if trial.status is Status.RUNNING]
        assert self._running == len(running), (self._running, running)
        assert self._pending == sum(trial.status is Status.PENDING for trial in self.trials)
        assert set(self._live) == {trial.trial_id for trial in self.trials if not trial.is_finished}
        for trial in self.trials:
            progress = self._progress[trial.trial_id]
            assert bool(progress.waits_for) == (trial.trial_id in self.outstanding), trial
            assert trial.status is Status.RUNNING or not progress.waits_for, trial
            assert progress.state_results <= trial.results, trial
        used = total([self._progress[trial.trial_id].demand for trial in running])
        for name in {*used, *self.room.used}:
            assert abs(used.get(name, 0.0) - self.room.used.get(name, 0.0)) < 1e-6, (name, used, self.room.used)


def _listed(demand: Demand) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(demand.items())) or "nothing"
