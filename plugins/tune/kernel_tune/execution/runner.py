"""The runner of an experiment: it carries out the instructions of the trial loop, and passes events to it.

Every event is written to the experiment's log before the loop gets it. An experiment that was killed is restored by
repeating the events in its log (`resume`); trials that ran then get new processes.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from kernel_runs.callbacks import Callback
from kernel_runs.process.interrupts import TrialInterrupts
from kernel_tune.errors import TuneError
from kernel_tune.execution.answer_order import AnswerOrder
from kernel_tune.execution.budget import TimeBudget
from kernel_tune.execution.events import tell
from kernel_tune.execution.instruction_runner import InstructionRunner
from kernel_tune.execution.instructions import Instruction, Notify
from kernel_tune.execution.listeners import Listeners
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.machines import what_there_is
from kernel_tune.execution.metrics import MetricWatch, wanted_metrics
from kernel_tune.execution.options import RunOptions
from kernel_tune.execution.processes import Arrival
from kernel_tune.execution.records import describe, for_log
from kernel_tune.execution.relocation import Relocation
from kernel_tune.execution.snapshots import Snapshots
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.execution.stop_criteria import StopCriteria
from kernel_tune.execution.waiting import WaitingTrials
from kernel_tune.raised import error_of
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.stoppers import Stopper
from kernel_tune.storage.experiment_files import ExperimentFiles
from kernel_tune.trainable.orders import Answer
from kernel_tune.trial import Status, Trial

_log = logging.getLogger("kernel.tune")

_END_SECONDS = 10.0
"""Seconds that the cleanup of trials may take when the experiment has ended."""
_ADD_SECONDS = 30.0
_LOOK_SECONDS = 0.5
"""Seconds between two rounds of housekeeping if no answer comes."""


class Runner:
    """Runs one experiment to its end. `report(loop, seconds, done)` is called often, and may display something."""

    def __init__(
        self,
        loop: TrialLoop,
        files: ExperimentFiles,
        trainables: dict[str, Any],
        stoppers: dict[str, Stopper],
        callbacks: Sequence[Callback] = (),
        options: RunOptions | None = None,
        report: Callable[[TrialLoop, float, bool], None] = lambda loop, seconds, done: None,
        clock: Callable[[], float] = time.monotonic,
        hears_only: Mapping[int, Collection[str]] | None = None,
    ) -> None:
        self.loop = loop
        self.files = files
        self.options = options or RunOptions()
        self.interrupted = False
        self.commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stop_criteria = StopCriteria(stoppers, files.directory)
        self._listeners = Listeners(callbacks, files.directory, hears_only)
        self._report = report
        self._clock = clock
        is_strict = self.options.deterministic or self._must_decide()
        self._instruction_runner = InstructionRunner(loop, files, trainables, self._listeners, self.options, is_strict)
        self._processes = self._instruction_runner.processes
        self._waiting = WaitingTrials(self._processes, self.options.queue_trials, clock)
        self._answer_order = AnswerOrder(self.options.deterministic)
        self._is_broken = False
        """Whether code has raised during a decision, so that the state must not be saved."""
        metric = next(iter(loop.specs.values())).metric
        self._watch = MetricWatch(wanted_metrics(metric, loop.algorithm))
        self._began = clock()
        self._used_seconds = 0.0
        """The time that earlier runs of this experiment took, in seconds."""
        self._snapshots = Snapshots(files, self.options.snapshot_seconds, clock)
        self._budget = TimeBudget(self.options.time_budget_seconds)
        self._capacity_at = float("-inf")

    def _must_decide(self) -> bool:
        """Return whether each result needs a decision before its trial continues."""
        decides = type(self.loop.scheduler).on_trial_result is not TrialScheduler.on_trial_result
        return decides or self._stop_criteria.must_decide

    # -- running ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a new experiment."""
        self.files.begin()
        self._write_snapshot()

    def resume(self) -> None:
        """Restore the state of an earlier run: replay the log, and let the trials that ran then run again."""
        self.files.open()
        offset = self._restore_snapshot()
        for trial in self.loop.get_live_trials():
            if trial.status is Status.RUNNING:
                self._instruction_runner.notify(Notify("trial_start", trial), again=True)
        end = offset
        for end, record in self.files.records(offset):  # noqa: B007 - needed after the last one
            self._replay(self._relocation.record(record))
        self.files.cut_log(end)  # a kill may leave an incomplete record
        self._instruction_runner.delete_dropped()
        self.loop.forget_states_in_memory()
        for trial_id in list(self.loop.outstanding):
            self._instruction_runner.bring_back(self._trial(trial_id))
        self._use_former_checkpoints()

    def run(self) -> None:
        """Run until every trial has ended. The first Ctrl-C ends it early and saves everything; a second one ends it at
        once.

        Raises TuneError if a searcher, scheduler or callback raises, and if the log can't be written; KeyboardInterrupt
        after two Ctrl-C. The experiment can be resumed afterwards.
        """
        with TrialInterrupts() as interrupts:
            try:
                self._refresh_capacity()
                while not self.loop.is_finished:
                    self._step(interrupts)
                    if interrupts.count:
                        self.interrupted = True
                        _log.warning("interrupted: the experiment is being saved; press Ctrl-C again to stop at once")
                        break
                self._tell_others(at_once=True)
                if self.interrupted:
                    self._save_running(interrupts)
            except BaseException as error:
                self._processes.end_all(gently=isinstance(error, TuneError))
                self._finish(interrupts, error)
                raise
            self._processes.end_all(gently=not self.interrupted)
            self._finish(interrupts)

    def _finish(self, interrupts: TrialInterrupts, error: BaseException | None = None) -> None:
        """Save everything, also after an `error`, which the caller raises. Raises the error of a callback."""
        if interrupts.count < 2:
            self._processes.wait_for_ends(_END_SECONDS)
            self._instruction_runner.node_files.finish()
        raised = self._listeners.tell_all("on_experiment_end", self.loop.trials)
        try:
            self._write_snapshot()
            self.files.close()
        except (OSError, TuneError) as late:
            _log.error("the end of the experiment could not be written down: %s. It can be resumed all the same", late)
        self._report(self.loop, self.used_seconds, True)
        if raised is not None and error is None:
            raise raised

    def _step(self, interrupts: TrialInterrupts) -> None:
        """Wait for answers, and process all that are there."""
        self._instruction_runner.steps += 1
        step = self._instruction_runner.steps
        self._listeners.tell("on_step_begin", step, self.loop.trials)
        self._waiting.check(self.loop)
        for arrival in self._arrivals(interrupts):
            self._arrived(*arrival)
        while not self.commands.empty():
            self.commands.get()()
        self._tell_others()
        self._look_around()
        self._listeners.tell("on_step_end", step, self.loop.trials)
        if not self.loop.is_finished:  # the end is reported once, when everything is saved
            self._report(self.loop, self.used_seconds, False)

    def _arrivals(self, interrupts: TrialInterrupts) -> Iterator[Arrival]:
        """Wait for answers, and yield those that may be processed now."""
        waiting = self._processes.arrivals
        found: list[Arrival] = []
        try:
            found.append(waiting.get(timeout=_LOOK_SECONDS) if not interrupts.count else waiting.get_nowait())
            while True:
                found.append(waiting.get_nowait())
        except queue.Empty:
            pass
        yield from self._answer_order.let_through(found, self.loop.outstanding)

    def _arrived(self, trial_id: str, number: int, answer: Answer | None, error: str) -> None:
        asked = self._instruction_runner.question_of(trial_id, number)
        if asked is None:
            return
        trial = self._trial(trial_id)
        if answer is None:
            self._processes.end(trial, gently=False)
            self._hear("failure", trial_id, f"the process of trial {trial} gave no answer: {error}")
            self._raise_at_once(trial)
            return
        if answer.refused:
            self._instruction_runner.start_anew(trial, asked)
            return
        if asked.is_unanswered(answer):
            self._instruction_runner.ask_again(trial)
            return
        self._processes.receive(trial, answer)
        self._is_broken = True  # a stopper may have state that is not in the log yet
        verdicts, stop_all = self._verdicts(trial, answer)
        self._hear("answer", trial_id, answer, verdicts, stop_all)
        for warning in self._watch.look(trial, answer.results):
            _log.warning("%s", warning)
        if asked.order.save and not answer.error and self.loop.progress_of(trial).state is None:
            for warning in self._watch.nothing_saved(trial, type(self.loop.scheduler).__name__):
                _log.warning("%s", warning)
        self._raise_at_once(trial)
        if trial.status is Status.TERMINATED and trial.results and not self.loop.progress_of(trial).stop_asked:
            self._tell_others(at_once=True)
            self._watch.check_reported(trial, self.loop.trials)
        if trial.has_ended and not trial.results and not trial.failures:
            _log.warning("trial %s has ended without a result: its trainable reported nothing", trial)

    def _raise_at_once(self, trial: Trial) -> None:
        """Raise the exception of a failed trial, if `fail_fast="raise"` is set."""
        error = error_of(trial) if self.loop.progress_of(trial).spec.raises else None
        if error is not None:
            self._tell_others(at_once=True)
            raise error

    def _verdicts(self, trial: Trial, answer: Answer) -> tuple[list[bool], bool]:
        return self._stop_criteria.decide(self.loop.progress_of(trial).spec, trial, answer)

    def _hear(self, event: str, *arguments: Any) -> None:
        """Log an event, pass it to the loop, and carry out the instructions. If the loop raises, it is not logged."""
        self._is_broken = True
        size = self.files.log_size
        self.files.add((event, *for_log(arguments)))
        try:
            instructions = self._tell(event, *arguments)
        except BaseException:
            self.files.cut_log(size)
            raise
        self._instruction_runner.carry_out(instructions)
        if event != "damage":
            self._use_former_checkpoints()

    def _use_former_checkpoints(self) -> None:
        """Let trials whose checkpoint is damaged continue from the one before."""
        while self._instruction_runner.damaged:
            trial, saved, damage = self._instruction_runner.damaged.popleft()
            self._hear("damage", trial.trial_id)
            state = self.loop.progress_of(trial).state
            instead = f"continues from the one before, {state.path}" if state is not None else "begins anew"
            _log.warning("checkpoint %s of trial %s is damaged (%s): the trial %s", saved.path, trial, damage, instead)
            self._instruction_runner.bring_back(trial)

    def _tell_others(self, at_once: bool = False) -> None:
        """Call callbacks for what has happened. Unless `at_once`, answers that arrive meanwhile are processed first."""
        arrivals = self._processes.arrivals
        time.sleep(0)  # orders are sent by another thread: give it the chance to send them first
        self._is_broken = True
        self._is_broken = not self._instruction_runner.tell_others(lambda: not at_once and not arrivals.empty())

    def _tell(self, event: str, *arguments: Any) -> list[Instruction]:
        return tell(self.loop, self.files.directory, event, *arguments)

    def retry_failed(self, anew: bool) -> None:
        """After `resume`: run the trials that failed again."""
        for trial in self.loop.trials:
            if trial.status is Status.ERROR:
                self._hear("retry", trial.trial_id, anew)

    def drop_unfinished(self) -> None:
        """After `resume`: end the trials that had not ended."""
        for trial in list(self.loop.get_live_trials()):
            self._hear("stop", trial.trial_id)

    # -- called from other threads ----------------------------------------------------------------------------------

    def stop_trial(self, trial_id: str) -> None:
        """Stop a trial soon. Any thread."""
        self.commands.put(lambda: self._hear("stop", trial_id))

    def stop_all(self) -> None:
        """Stop all trials soon. Any thread."""
        self.commands.put(lambda: self._hear("stop_all"))

    def trials(self) -> list[Trial]:
        """Return all trials. Any thread."""
        return list(self.loop.trials)

    def add(self, spec: ExperimentSpec, trainable: Any, trials: Sequence[Trial]) -> None:
        """Add trials to the experiment, and wait until it has them. Any thread but the runner's."""
        taken = threading.Event()

        def take() -> None:
            self._instruction_runner.add_trainable(spec.trainable_name, trainable)
            for trial in trials:
                self._hear("add", spec, trial)
            taken.set()

        self.commands.put(take)
        taken.wait(_ADD_SECONDS)

    # -- housekeeping ----------------------------------------------------------------------------------------------

    def _look_around(self) -> None:
        now = self._clock()
        if now - self._capacity_at > 2.0:
            self._refresh_capacity()
            self._waiting.look()
        self._instruction_runner.node_files.look()
        for event in self._budget.events(self.used_seconds, self.loop):
            self._hear(*event)
        if self._snapshots.is_due:
            self._tell_others(at_once=True)
            self._write_snapshot()

    @property
    def used_seconds(self) -> float:
        """The time that the experiment has run, in seconds, earlier runs included."""
        return self._used_seconds + self._clock() - self._began

    def _refresh_capacity(self) -> None:
        self._capacity_at = self._clock()
        capacity, nodes = what_there_is()
        room = self.loop.room
        if (capacity, nodes) != (room.capacity, room.nodes):
            self._waiting.has_changed(room.capacity, capacity)
            self._hear("capacity", capacity, nodes)

    # -- interrupts ------------------------------------------------------------------------------------------------

    def _save_running(self, interrupts: TrialInterrupts) -> None:
        """After a Ctrl-C: process pending answers for a moment. Running trials will resume at their last checkpoint."""
        deadline = self._clock() + 2.0
        awaited = self._answer_order.awaited(self.loop.outstanding)
        while awaited and self._clock() < deadline and interrupts.count < 2:
            try:
                found = [self._processes.arrivals.get(timeout=0.1)]
            except queue.Empty:
                continue
            awaited.discard(found[0][0])
            for trial_id, number, answer, _ in self._answer_order.let_through(found, self.loop.outstanding):
                asked = self._instruction_runner.question_of(trial_id, number)
                if asked is None or answer is None or answer.error or answer.refused or asked.is_unanswered(answer):
                    continue
                self._write_answer(self._trial(trial_id), answer)
        self._instruction_runner.delete_dropped()

    def _write_answer(self, trial: Trial, answer: Answer) -> None:
        """Process an answer without giving processes further orders."""
        self._processes.receive(trial, answer)
        self._is_broken = True
        arguments = (trial.trial_id, answer, *self._verdicts(trial, answer))
        self.files.add(("answer", *for_log(arguments)))
        self._instruction_runner.write_down(self._tell("answer", *arguments), again=False)
        self._is_broken = False

    def _trial(self, trial_id: str) -> Trial:
        trial = self.loop.find(trial_id)
        assert trial is not None, trial_id
        return trial

    # -- the state -------------------------------------------------------------------------------------------------

    def _write_snapshot(self) -> None:
        """Save the state of the experiment, unless nothing has changed or the state can't be trusted."""
        if self._snapshots.is_up_to_date or self._is_broken:
            return
        self._listeners.tell("flush")
        self._snapshots.write(self._state, lambda: describe(self.loop, self.used_seconds))

    def _state(self) -> dict[str, Any]:
        return {
            "loop": self.loop,
            "stoppers": self._stop_criteria.stoppers,
            "lines": self._instruction_runner.lines,
            "used_seconds": self.used_seconds,
            "callbacks": self._listeners.states(),
        }

    def _restore_snapshot(self) -> int:
        state = self.files.read_snapshot()
        old, self.loop = self.loop, state["loop"]
        self.loop.adopt(old)
        self._relocation = Relocation(self.loop, old)
        self._stop_criteria.adopt(state["stoppers"])
        self._used_seconds = state["used_seconds"]
        self._instruction_runner.loop = self.loop
        self._instruction_runner.is_strict = self.options.deterministic or self._must_decide()
        self._instruction_runner.cut_lines(state["lines"])
        self._listeners.set_states(state["callbacks"])
        return int(state["offset"])

    def _replay(self, record: tuple[Any, ...]) -> None:
        """Repeat an event of the log. Only instructions for callbacks and files are carried out."""
        event, *arguments = record
        if event == "answer":
            trial = self.loop.find(arguments[0])
            if trial is not None:
                self._verdicts(trial, arguments[1])  # only for the state of the stopper: its verdict is in the log
        try:
            instructions = self._tell(event, *arguments)
        except KeyError as error:
            raise TuneError(
                f"the experiment's log in {self.files.directory} is of other trials ({error} is not known): the "
                "searcher did not make the same ones again; give it the seed that it had"
            ) from error
        self._instruction_runner.write_down(instructions, again=True)
