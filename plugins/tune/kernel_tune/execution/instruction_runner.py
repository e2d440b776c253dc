"""Carrying out the instructions of the trial loop: asking processes, calling callbacks, writing and deleting files."""

from __future__ import annotations

import logging
import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import kernel
from kernel_runs.pickling import put
from kernel_runs.place import Place
from kernel_runs.raised import ERROR_FILE, RAISED_FILE
from kernel_runs.storage.directories import damage_of
from kernel_runs.trainable.durable import DurableTrainable
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
from kernel_tune.execution.listeners import Listeners
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.machines import Machines
from kernel_tune.execution.node_files import NodeFiles
from kernel_tune.execution.options import RunOptions
from kernel_tune.execution.processes import Processes
from kernel_tune.execution.transfers import Transfer, make_transfer
from kernel_tune.storage.experiment_files import ExperimentFiles, write_whole
from kernel_tune.trainable.orders import Answer, Order, Saved, Setup
from kernel_tune.trial import Trial

_log = logging.getLogger("kernel.tune")

MOST_UNTOLD = 200
"""The number of instructions for callbacks and files that may be delayed while processes wait for orders."""


@dataclass
class LastOrder:
    """Records the last order that the process of a trial was given."""

    number: int
    order: Order = field(default_factory=Order)

    def is_unanswered(self, answer: Answer) -> bool:
        """Return whether an answer is empty although the trial was to train: its iteration takes longer."""
        return self.order.trains and not (answer.results or answer.ended or answer.error)


class InstructionRunner:
    """Carries out instructions. With `is_strict` trials wait after each result for the decision about it."""

    def __init__(
        self,
        loop: TrialLoop,
        files: ExperimentFiles,
        trainables: dict[str, Any],
        listeners: Listeners,
        options: RunOptions,
        is_strict: bool,
    ) -> None:
        self.loop = loop
        self.is_strict = is_strict
        self.steps = 0
        """The number of steps of the runner so far, which callbacks are given."""
        self.lines: dict[str, int] = {}
        """The lengths of the files that lines are appended to, in bytes."""
        self._files = files
        self._listeners = listeners
        self._options = options
        self._machines = Machines()
        self._asked: dict[str, LastOrder] = {}
        self._untold: deque[Notify | Write] = deque()
        self.damaged: deque[tuple[Trial, Saved, str]] = deque()
        """Trials whose checkpoint is damaged, which need another one to continue from, with what is missing."""
        self._dropped: dict[str, None] = {}
        """The paths of checkpoints that are no longer kept and not yet deleted."""
        references = {name: _sent(trainable, name) for name, trainable in trainables.items()}
        self.node_files = NodeFiles(_transfers(loop, options))
        self.processes = Processes(references, self._machines, self.node_files, options.reuse_actors)

    def add_trainable(self, name: str, trainable: Any) -> None:
        """Add a trainable, for trials that were added to the experiment."""
        self.processes.trainables.setdefault(name, _sent(trainable, name))

    def question_of(self, trial_id: str, number: int) -> LastOrder | None:
        """Return the last order of a trial if it has this number, else None."""
        asked = self._asked.get(trial_id)
        return asked if asked is not None and asked.number == number else None

    def ask_again(self, trial: Trial) -> None:
        """Let a trial continue its iteration: its answer was empty."""
        self._ask(trial, self._order(trial))

    def start_anew(self, trial: Trial, asked: LastOrder) -> None:
        """Give an order that a process has refused to a new process."""
        asked.number = self.processes.start_anew(trial, asked.order)

    def bring_back(self, trial: Trial) -> None:
        """Give a trial its last order again after a kill, in a new process."""
        progress = self.loop.progress_of(trial)
        start = Start(trial, progress.state, trial.results - progress.state_results)
        self._start(start, trains=not progress.saves_to, save=progress.saves_to)

    def write_down(self, instructions: Sequence[Instruction], again: bool) -> None:
        """Carry out only instructions for callbacks and files, without asking processes. Deletions are delayed."""
        for instruction in instructions:
            if isinstance(instruction, Notify):
                self.notify(instruction, again)
            elif isinstance(instruction, Write):
                self._write(instruction)
            elif isinstance(instruction, DeleteCheckpoint):
                self._dropped[instruction.saved.path] = None

    def delete_dropped(self) -> None:
        """Delete the checkpoints whose deletion was delayed, unless they are in use again."""
        used = self.loop.paths_in_use()
        for path in self._dropped:
            if path not in used:
                shutil.rmtree(path, ignore_errors=True)
        self._dropped.clear()

    def cut_lines(self, lines: dict[str, int]) -> None:
        """Cut files to the lengths in the resumed state, and continue from there."""
        self.lines = lines
        for name in os.listdir(self._files.directory):
            if name in lines or (name.startswith("pbt_") and name.endswith(".txt")):
                os.truncate(self._files.path(name), lines.get(name, 0))

    def carry_out(self, instructions: Sequence[Instruction]) -> None:
        """Carry out the instructions for processes, in order. Those for callbacks and files wait for `tell_others`."""
        for instruction in instructions:
            if isinstance(instruction, Continue):
                self._ask(instruction.trial, self._order(instruction.trial))
            elif isinstance(instruction, Start):
                self._start(instruction)
            elif isinstance(instruction, Save):
                self._ask(instruction.trial, self._order(instruction.trial, trains=False, save=instruction.where))
            elif isinstance(instruction, LoadState):
                self._load(instruction.trial, instruction.state)
            elif isinstance(instruction, Stop):
                self._stop(instruction)
            elif isinstance(instruction, DeleteCheckpoint):
                # A trial that continues may use the name again, and callbacks must have seen the checkpoint before.
                self.tell_others()
                shutil.rmtree(instruction.saved.path, ignore_errors=True)
            else:
                self._untold.append(instruction)

    def tell_others(self, is_urged: Callable[[], bool] = lambda: False) -> bool:
        """Carry out the delayed instructions for callbacks and files, in order. Return whether all are done.

        It stops early if `is_urged()` says that there are answers to process, unless too many instructions are delayed.
        """
        while self._untold:
            instruction = self._untold.popleft()
            if isinstance(instruction, Notify):
                self.notify(instruction)
            else:
                self._write(instruction)
            if len(self._untold) < MOST_UNTOLD and is_urged():
                break
        return not self._untold

    def _order(self, trial: Trial, **changes: Any) -> Order:
        spec = self.loop.progress_of(trial).spec
        return Order(
            strict=self.is_strict,
            slice_seconds=self._options.slice_seconds,
            stop=spec.stop,
            checkpoint_every=spec.checkpoints.every,
            checkpoint_at_end=spec.checkpoints.at_end,
            **changes,
        )

    def _setup(self, trial: Trial) -> Setup:
        spec = self.loop.progress_of(trial).spec
        place = Place(
            trial.trial_id, str(trial), spec.name, trial.logdir, trial.resources, spec.upload_dir, trial.local_dir,
            self._machines.node, self._machines.marker_in(trial.local_dir),
        )  # fmt: skip
        options = self._options
        return Setup(place, trial.config, options.changes_directory, options.printed)

    def _start(self, start: Start, **changes: Any) -> None:
        trial = start.trial
        if self._is_damaged(trial, start.state):
            return
        order = self._order(trial, setup=self._setup(trial), restore=start.state, skip=start.skip, **changes)
        self._asked[trial.trial_id] = LastOrder(self.processes.start(trial, order), order)

    def _ask(self, trial: Trial, order: Order) -> None:
        if not self.processes.has(trial):  # the trial was waiting when an earlier run was killed
            progress = self.loop.progress_of(trial)
            start = Start(trial, progress.state, trial.results - progress.state_results)
            self._start(start, trains=order.trains, save=order.save)
            return
        self._asked[trial.trial_id] = LastOrder(self.processes.ask(trial, order), order)

    def _is_damaged(self, trial: Trial, state: Saved | None) -> bool:
        """Return whether a checkpoint of this experiment is damaged, and note that its trial needs another one."""
        progress = self.loop.progress_of(trial)
        if state is None or state.is_in_memory or state is progress.first_state:
            return False
        trainable = progress.spec.trainable
        if not os.path.isdir(state.path) and isinstance(trainable, type) and issubclass(trainable, DurableTrainable):
            return False  # It fetches a missing checkpoint itself.
        damage = damage_of(state.path, state.sizes)
        if damage:
            self._asked.pop(trial.trial_id, None)
            self.damaged.append((trial, state, damage))
        return bool(damage)

    def _load(self, trial: Trial, state: Saved | None) -> None:
        if self._is_damaged(trial, state):
            self.processes.end(trial)
            return
        order = self._order(trial, setup=self._setup(trial), restore=state)
        if self.processes.has(trial) and self._options.reuse_actors:
            self._asked[trial.trial_id] = LastOrder(self.processes.ask(trial, order), order)
        else:
            self._asked[trial.trial_id] = LastOrder(self.processes.start_anew(trial, order), order)

    def _stop(self, stop: Stop) -> None:
        trial = stop.trial
        if stop.exports and self.processes.has(trial):
            try:
                trial.extra["exports"] = self.processes.export(trial, stop.exports)
            except Exception as error:
                _log.warning("trial %s could not export its model: %s", trial, error)
        self._asked.pop(trial.trial_id, None)
        self.processes.end(trial, keep=not stop.failed)

    def _write(self, write: Write) -> None:
        with open(self._files.path(write.file_name), "a", encoding="utf-8") as file:
            file.write(write.line.rstrip("\n") + "\n")
            self.lines[write.file_name] = file.tell()

    def notify(self, notify: Notify, again: bool = False) -> None:
        """Call callbacks. An event that happens `again` after a kill is passed to loggers only."""
        trial = notify.trial
        if notify.event in ("trial_error", "trial_recover"):
            self._write_error(trial)
        where = (self.steps, self.loop.trials, trial)
        if notify.event == "trial_result":
            self._listeners.tell("on_trial_results", *where, notify.results, again=again)
        elif notify.event == "checkpoint":
            self._listeners.tell("on_checkpoint", *where, notify.checkpoint, again=again)
        else:
            self._listeners.tell(f"on_{notify.event}", *where, again=again)

    def _write_error(self, trial: Trial) -> None:
        """Write the error of a trial into its directory. A full disk, which may be that error, is only logged."""
        trial.error_file = path = os.path.join(trial.logdir, ERROR_FILE)
        try:
            os.makedirs(trial.logdir, exist_ok=True)
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"Failure number {trial.failures}\n{trial.error_message}\n")
            path = os.path.join(trial.logdir, RAISED_FILE)
            if trial.raised:
                write_whole(path, trial.raised)
            elif os.path.exists(path):
                os.remove(path)
        except OSError as error:
            _log.warning("why trial %s failed can't be kept in %s: %s", trial, path, error)
            if not os.path.exists(trial.error_file):
                trial.error_file = ""


def _transfers(loop: TrialLoop, options: RunOptions) -> dict[str, Transfer]:
    """Return how files are fetched from other machines, by the directory of the experiment."""
    made = {spec.local_dir: make_transfer(options.sync_to_driver.get(spec.name)) for spec in loop.specs.values()}
    return {directory: transfer for directory, transfer in made.items() if transfer is not None}


def _sent(trainable: Any, name: str) -> kernel.ObjectRef:
    hint = f"If it is data, give it by tune.with_parameters({name}, ...), as something that can be pickled."
    return put(trainable, f"trainable {name}", name, hint)
