"""The runner of an experiment: it carries out what the trial loop says, and tells it what came of that.

Everything that the loop hears is written to the experiment's log before. An experiment that was killed is brought back
by telling the loop what the log has (`resume`); the processes of trials that ran then are made again.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import kernel
from kernel_tune.callbacks import Callback
from kernel_tune.errors import TuneError
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
from kernel_tune.execution.interrupts import Interrupts
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.processes import Arrival, Processes
from kernel_tune.result import Result
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.storage.experiment_files import ExperimentFiles
from kernel_tune.stoppers import DictionaryStopper, NoopStopper, Stopper
from kernel_tune.trainable.orders import Answer, Order, Saved, Setup
from kernel_tune.trainable.place import Place
from kernel_tune.trial import Status, Trial

_log = logging.getLogger("kernel.tune")

_END_SECONDS = 10.0
"""How long the cleanup of trials may take when the experiment has ended."""
_LOCAL = (NoopStopper, DictionaryStopper)
"""Stop criteria that the process of a trial knows of."""
_LOOK_SECONDS = 0.5
"""How often the runner looks around when nothing comes."""


@dataclass
class RunOptions:
    """How an experiment runs, beside what its trials do."""

    reuse_actors: bool = False
    deterministic: bool = False
    """Take answers in the order of the questions, so that a seeded run is the same every time."""
    changes_directory: bool = True
    queue_trials: bool = True
    """Wait for machines where all that there are have no room for a trial."""
    time_budget_seconds: float | None = None
    snapshot_seconds: float = 10.0
    slice_seconds: float = 0.05


@dataclass
class _Asked:
    """What the process of a trial was asked last."""

    number: int
    order: Order = field(default_factory=Order)


class Runner:
    """Runs one experiment to its end. `report(loop, seconds, done)` is called often, and shows what it likes."""

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
    ) -> None:
        self.loop = loop
        self.files = files
        self.options = options or RunOptions()
        self.interrupted = False
        self.commands: queue.SimpleQueue[Callable[[], list[Instruction] | None]] = queue.SimpleQueue()
        self._stoppers = stoppers
        self._callbacks = list(callbacks)
        self._report = report
        self._clock = clock
        nodes = kernel.nodes()
        self._node = kernel.get_runtime_context().get_node_id()
        self._many_nodes = len([node for node in nodes if node.get("Alive", True)]) > 1
        self._processes = Processes(
            {name: kernel.put(trainable) for name, trainable in trainables.items()},
            self.options.reuse_actors,
            self._many_nodes,
        )
        self._trainables = self._processes.trainables
        self._asked: dict[str, _Asked] = {}
        self._early: dict[str, Arrival] = {}
        """Answers that came before their turn, by trial."""
        self._lines: dict[str, int] = {}
        self._steps = 0
        self._began = clock()
        self._used_seconds = 0.0
        """How long earlier runs of this experiment took."""
        self._snapshot_at = 0.0
        self._snapshot_size = -1
        self._capacity_at = float("-inf")
        self._is_strict = self.options.deterministic or self._must_decide()

    def _must_decide(self) -> bool:
        """Return whether each result has to be decided about before its trial goes on."""
        decides = type(self.loop.scheduler).on_trial_result is not TrialScheduler.on_trial_result
        return decides or any(type(stopper) not in _LOCAL for stopper in self._stoppers.values())

    # -- running ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a new experiment."""
        self.files.begin()
        self._write_snapshot()

    def resume(self) -> None:
        """Come to where an earlier run was: tell the loop what the log has, and have its trials run again."""
        offset = self._restore_snapshot()
        for trial in self.loop.get_live_trials():
            if trial.status is Status.RUNNING:
                self._notify(Notify("trial_start", trial), again=True)
        for offset, record in self.files.records(offset):  # noqa: B007 - the last one is needed
            self._replay(record)
        self.files.go_on(offset)
        self.loop.forget_states_in_memory()
        outstanding = list(self.loop.outstanding)
        for trial_id in outstanding:
            self._bring_back(trial_id)

    def run(self) -> None:
        """Run until every trial has ended. Raises what a callback raises; a Ctrl-C ends it early, with all saved."""
        with Interrupts() as interrupts:
            try:
                self._refresh_capacity()
                while not self.loop.is_finished:
                    self._step(interrupts)
                    if interrupts.count and not self.interrupted:
                        self.interrupted = True
                        _log.warning(
                            "interrupted: the experiment is being saved; press Ctrl-C again to stop at once"
                        )
                        break
                if self.interrupted:
                    self._save_running(interrupts)
            finally:
                self._processes.end_all(gently=not self.interrupted)
                self._finish(interrupts)

    def _finish(self, interrupts: Interrupts) -> None:
        if interrupts.count < 2:
            self._processes.wait_for_ends(_END_SECONDS)
        for callback in self._callbacks:
            callback.on_experiment_end(self.loop.trials)
        self._write_snapshot()
        self.files.close()
        self._report(self.loop, self.used_seconds, True)

    def _step(self, interrupts: Interrupts) -> None:
        """Wait for answers, and take all that are there."""
        self._steps += 1
        for callback in self._callbacks:
            callback.on_step_begin(self._steps, self.loop.trials)
        self._check_stuck()
        for arrival in self._arrivals(interrupts):
            self._arrived(*arrival)
        while not self.commands.empty():
            self._carry_out(self.commands.get()() or [])
        self._look_around()
        for callback in self._callbacks:
            callback.on_step_end(self._steps, self.loop.trials)
        self._report(self.loop, self.used_seconds, False)

    def _arrivals(self, interrupts: Interrupts) -> Iterator[Arrival]:
        """Wait for answers; yield those that are there, or those whose turn it is."""
        waiting = self._processes.arrivals
        found: list[Arrival] = []
        try:
            found.append(waiting.get(timeout=_LOOK_SECONDS) if not interrupts.count else waiting.get_nowait())
            while True:
                found.append(waiting.get_nowait())
        except queue.Empty:
            pass
        if not self.options.deterministic:
            yield from found
            return
        for arrival in found:
            self._early[arrival[0]] = arrival
        while (first := next(iter(self.loop.outstanding), "")) in self._early:
            yield self._early.pop(first)

    def _arrived(self, trial_id: str, number: int, answer: Answer | None, error: str) -> None:
        asked = self._asked.get(trial_id)
        if asked is None or asked.number != number:
            return
        trial = self.loop.find(trial_id)
        assert trial is not None
        if answer is None:
            self._processes.end(trial, gently=False)
            self._hear("failure", trial_id, error)
            return
        if answer.refused:
            asked.number = self._processes.start_anew(trial, asked.order)
            return
        if not answer.results and not answer.ended and not answer.error and asked.order.trains:
            self._ask(trial, self._order(trial))  # it reported nothing yet
            return
        self._processes.receive(trial, answer)
        verdicts, stop_all = self._judge(trial, answer)
        self._hear("answer", trial_id, answer, verdicts, stop_all)

    def _judge(self, trial: Trial, answer: Answer) -> tuple[list[bool], bool]:
        """Return after which results a stop criterion ends the trial, and whether all are to end."""
        stopper = self._stoppers[self.loop.progress_of(trial).spec.name]
        verdicts = [bool(stopper(trial.trial_id, result)) for result in answer.results]
        return verdicts, bool(answer.results) and bool(stopper.stop_all())

    def _hear(self, event: str, *arguments: Any) -> None:
        """Write an event down, tell the loop, and do what it says."""
        self.files.add((event, *_for_log(arguments)))
        self._carry_out(self._tell(event, *arguments))

    def _tell(self, event: str, *arguments: Any) -> list[Instruction]:
        loop = self.loop
        if event == "answer":
            return loop.on_answer(*arguments)
        if event == "failure":
            return loop.on_failure(*arguments)
        if event == "capacity":
            return loop.set_capacity(*arguments)
        if event == "stop":
            return loop.stop_trial(*arguments) or []
        if event == "stop_all":
            return loop.stop_all()
        if event == "add":
            return loop.add_trial(*arguments)
        raise TuneError(f"the experiment's log has an event {event!r} that nobody knows: it is of a later version")

    # -- from elsewhere --------------------------------------------------------------------------------------------

    def stop_trial(self, trial_id: str) -> None:
        """Have a trial stopped soon. Any thread."""
        self.commands.put(lambda: self._hear("stop", trial_id))  # type: ignore[func-returns-value]

    def stop_all(self) -> None:
        """Have all trials stopped soon. Any thread."""
        self.commands.put(lambda: self._hear("stop_all"))  # type: ignore[func-returns-value]

    # -- now and then ----------------------------------------------------------------------------------------------

    def _look_around(self) -> None:
        now = self._clock()
        if now - self._capacity_at > 2.0:
            self._refresh_capacity()
        budget = self.options.time_budget_seconds
        if budget is not None and not self.loop.is_stopping and self.used_seconds > budget:
            self._hear("stop_all")
        if now - self._snapshot_at > self.options.snapshot_seconds:
            self._write_snapshot()

    @property
    def used_seconds(self) -> float:
        """How long the experiment has run, with its earlier runs."""
        return self._used_seconds + self._clock() - self._began

    def _refresh_capacity(self) -> None:
        self._capacity_at = self._clock()
        capacity = {
            name: float(amount) for name, amount in kernel.cluster_resources().items() if not name.startswith("node:")
        }
        if capacity != self.loop.room.capacity:
            self._hear("capacity", capacity)

    def _check_stuck(self) -> None:
        if self.loop.is_stuck and self._processes.arrivals.empty():
            waits = any(not self.loop.could_run(trial) for trial in self.loop.get_live_trials())
            if not (waits and self.options.queue_trials):
                raise TuneError(
                    f"the experiment can't go on: {self.loop.why_stuck()}"
                    + ("; ask for less, or say queue_trials=True to wait for more machines" if waits else "")
                )

    # -- instructions ----------------------------------------------------------------------------------------------

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Continue):
                self._ask(instruction.trial, self._order(instruction.trial))
            elif isinstance(instruction, Notify):
                self._notify(instruction)
            elif isinstance(instruction, Start):
                self._start(instruction)
            elif isinstance(instruction, Save):
                self._ask(instruction.trial, self._order(instruction.trial, trains=False, save=instruction.where))
            elif isinstance(instruction, Load):
                self._load(instruction.trial, instruction.state)
            elif isinstance(instruction, Stop):
                self._stop(instruction)
            elif isinstance(instruction, Delete):
                shutil.rmtree(instruction.saved.path, ignore_errors=True)
            else:
                self._write(instruction)

    def _order(self, trial: Trial, **changes: Any) -> Order:
        spec = self.loop.progress_of(trial).spec
        return Order(
            strict=self._is_strict,
            slice_seconds=self.options.slice_seconds,
            stop=spec.stop,
            checkpoint_every=spec.checkpoints.every,
            checkpoint_at_end=spec.checkpoints.at_end,
            knows_node=self._node if self._many_nodes else "",
            **changes,
        )

    def _setup(self, trial: Trial) -> Setup:
        spec = self.loop.progress_of(trial).spec
        place = Place(trial.trial_id, str(trial), spec.name, trial.logdir, trial.resources)
        return Setup(self._trainables[trial.trainable_name], place, trial.config, self.options.changes_directory)

    def _start(self, start: Start, **changes: Any) -> None:
        trial = start.trial
        order = self._order(trial, setup=self._setup(trial), restore=start.state, skip=start.skip, **changes)
        self._asked[trial.trial_id] = _Asked(self._processes.start(trial, order), order)

    def _ask(self, trial: Trial, order: Order) -> None:
        if not self._processes.has(trial):  # it waited when an earlier run was killed
            progress = self.loop.progress_of(trial)
            start = Start(trial, progress.state, trial.results - progress.state_results)
            self._start(start, trains=order.trains, save=order.save)
            return
        self._asked[trial.trial_id] = _Asked(self._processes.ask(trial, order), order)

    def _load(self, trial: Trial, state: Saved | None) -> None:
        order = self._order(trial, setup=self._setup(trial), restore=state)
        if self._processes.has(trial) and self.options.reuse_actors:
            self._asked[trial.trial_id] = _Asked(self._processes.ask(trial, order), order)
        else:
            self._asked[trial.trial_id] = _Asked(self._processes.start_anew(trial, order), order)

    def _stop(self, stop: Stop) -> None:
        trial = stop.trial
        if stop.exports and self._processes.has(trial):
            try:
                trial.extra["exports"] = self._processes.export(trial, stop.exports)
            except Exception as error:
                _log.warning("trial %s could not export its model: %s", trial, error)
        self._asked.pop(trial.trial_id, None)
        self._processes.end(trial, keep=not stop.failed)

    def _write(self, write: Write) -> None:
        with open(self.files.path(write.file_name), "a", encoding="utf-8") as file:
            file.write(write.line.rstrip("\n") + "\n")
            self._lines[write.file_name] = file.tell()

    def _notify(self, notify: Notify, again: bool = False) -> None:
        """Tell callbacks; of what is done `again` after a kill only those that write it down hear."""
        trial = notify.trial
        if notify.event in ("trial_error", "trial_recover"):
            self._write_error(trial)
        for callback in self._callbacks:
            if again and not callback.hears_again:
                continue
            if notify.event == "trial_result":
                callback.on_trial_results(self._steps, self.loop.trials, trial, notify.results)
            elif notify.event == "checkpoint":
                callback.on_checkpoint(self._steps, self.loop.trials, trial, notify.checkpoint)
            else:
                getattr(callback, f"on_{notify.event}")(self._steps, self.loop.trials, trial)

    def _write_error(self, trial: Trial) -> None:
        os.makedirs(trial.logdir, exist_ok=True)
        trial.error_file = os.path.join(trial.logdir, "error.txt")
        with open(trial.error_file, "a", encoding="utf-8") as file:
            file.write(f"Failure number {trial.failures}\n{trial.error_message}\n")

    # -- interrupts ------------------------------------------------------------------------------------------------

    def _save_running(self, interrupts: Interrupts) -> None:
        """After a Ctrl-C: take what is on its way for a moment. What runs then begins again at its last checkpoint."""
        deadline = self._clock() + 2.0
        while self.loop.outstanding and self._clock() < deadline and interrupts.count < 2:
            try:
                trial_id, number, answer, error = self._processes.arrivals.get(timeout=0.1)
            except queue.Empty:
                continue
            asked = self._asked.get(trial_id)
            if asked is None or asked.number != number or answer is None or answer.error or answer.refused:
                continue
            trial = self.loop.find(trial_id)
            assert trial is not None
            self._processes.receive(trial, answer)
            arguments = (trial_id, answer, *self._judge(trial, answer))
            self.files.add(("answer", *_for_log(arguments)))
            for instruction in self._tell("answer", *arguments):
                if isinstance(instruction, Notify):
                    self._notify(instruction)
                elif isinstance(instruction, Write):
                    self._write(instruction)

    # -- the state -------------------------------------------------------------------------------------------------

    def _write_snapshot(self) -> None:
        """Write down where everything stands, unless nothing has happened; seldom enough to cost little."""
        if self.files.log_size == self._snapshot_size:
            return
        began = self._clock()
        for callback in self._callbacks:
            callback.flush()
        state = {
            "loop": self.loop,
            "stoppers": self._stoppers,
            "lines": self._lines,
            "used_seconds": self.used_seconds,
            "callbacks": [callback.get_state() for callback in self._callbacks],
        }
        try:
            self.files.write_snapshot(state)
        except TuneError as error:
            _log.warning("the experiment resumes from its beginning only: %s", error)
        self.files.write_state(describe(self.loop, self.used_seconds))
        took = self._clock() - began
        self._snapshot_size = self.files.log_size
        self._snapshot_at = self._clock() + max(0.0, took * 20 - self.options.snapshot_seconds)

    def _restore_snapshot(self) -> int:
        state = self.files.read_snapshot()
        old, self.loop = self.loop, state["loop"]
        self.loop.adopt(old)
        self._stoppers = state["stoppers"]
        self._used_seconds = state["used_seconds"]
        self._lines = state["lines"]
        for name in os.listdir(self.files.directory):
            if name.startswith("pbt_") and name.endswith(".txt"):
                os.truncate(self.files.path(name), self._lines.get(name, 0))
        for callback, saved in zip(self._callbacks, state["callbacks"], strict=False):
            if saved is not None:
                callback.set_state(saved)
        self._is_strict = self.options.deterministic or self._must_decide()
        return int(state["offset"])

    def _replay(self, record: tuple[Any, ...]) -> None:
        """Tell the loop what it was told before; only what is written down of it is done."""
        event, *arguments = record
        if event == "answer":
            trial = self.loop.find(arguments[0])
            if trial is not None:
                self._judge(trial, arguments[1])  # for what the stopper remembers; what it said is in the log
        try:
            instructions = self._tell(event, *arguments)
        except KeyError as error:
            raise TuneError(
                f"the experiment's log in {self.files.directory} is of other trials ({error} is not known): the searcher "
                "did not make the same ones again; give it the seed that it had"
            ) from error
        for instruction in instructions:
            if isinstance(instruction, Notify):
                self._notify(instruction, again=True)
            elif isinstance(instruction, Write):
                self._write(instruction)

    def _bring_back(self, trial_id: str) -> None:
        """Have the process of a trial that was asked something asked again."""
        trial = self.loop.find(trial_id)
        assert trial is not None
        progress = self.loop.progress_of(trial)
        skip = trial.results - progress.state_results
        self._start(Start(trial, progress.state, skip), trains=not progress.saves_to, save=progress.saves_to)


def _for_log(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what is written down of an event: of states in memory only that there were some."""
    return tuple(_without_data(each) if isinstance(each, Answer) else each for each in arguments)


def _without_data(answer: Answer) -> Answer:
    bare = lambda saved: Saved(saved.iteration, saved.path)
    return Answer(
        answer.results,
        [(number, bare(saved)) for number, saved in answer.saved],
        answer.ended,
        answer.error,
        None if answer.state is None else bare(answer.state),
        answer.refused,
        answer.process,
    )


def describe(loop: TrialLoop, seconds: float) -> dict[str, Any]:
    """Return where an experiment stands, as what JSON can say."""
    return {
        "runner_data": {"seconds": seconds, "is_finished": loop.is_finished},
        "stats": {"trials": len(loop.trials), "scheduler": loop.scheduler.debug_string()},
        "experiments": [
            {"name": spec.name, "trainable": spec.trainable_name, "metric": spec.metric, "mode": spec.mode}
            for spec in loop.specs.values()
        ],
        "trials": [
            {
                "trial_id": trial.trial_id,
                "name": str(trial),
                "experiment_tag": trial.experiment_tag,
                "trainable_name": trial.trainable_name,
                "status": str(trial.status),
                "config": trial.config,
                "evaluated_params": trial.evaluated_params,
                "logdir": trial.logdir,
                "results": trial.results,
                "last_result": _plain(trial.last_result),
                "error_file": trial.error_file,
                "checkpoints": [kept.saved.path for kept in loop.progress_of(trial).book.kept],
            }
            for trial in loop.trials
        ],
    }


def _plain(result: Result) -> Result:
    return {key: value for key, value in result.items() if isinstance(value, (int, float, str, bool, type(None)))}
