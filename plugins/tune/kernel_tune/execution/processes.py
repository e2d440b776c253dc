"""The processes of trials: created, asked, kept for the next trial, ended."""

from __future__ import annotations

import logging
import os
import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import kernel
from kernel.exceptions import KernelError, TaskError
from kernel_runs.resources import Demand, Request
from kernel_runs.shared_names import publish_names
from kernel_runs.storage.directories import being_written, pack, publish, unpack
from kernel_tune.execution.machines import Machines
from kernel_tune.execution.node_files import NodeFiles
from kernel_tune.trainable.actor import TrialActor
from kernel_tune.trainable.orders import Answer, Order, Saved
from kernel_tune.trial import Trial

_log = logging.getLogger("kernel.tune")

_LARGE_BYTES = 1 << 20
"""The size in bytes from which on states in memory are kept in the object store."""


@dataclass
class TrialProcess:
    """Represents the actor of a trial. `group` is its placement group, if it has one."""

    actor: Any
    request: Request
    kind: str
    """The name of the trainable that it was created for."""
    trial: str
    """The name of the trial that it runs, or has run last."""
    made_at: float
    group: Any = None
    has_begun: bool = False
    """Whether it has answered before."""
    is_clean: bool = False
    """Whether it has nothing to clean up."""


Arrival = tuple[str, int, "Answer | None", str]
"""A trial's id, the number of the order, the answer or None, and the error if there is no answer."""


class Processes:
    """Keeps one actor for each running trial. Answers are put into `arrivals`, from any thread.

    With `reuse` an actor whose trial has ended runs the next trial with the same trainable and resources.
    """

    def __init__(
        self, trainables: dict[str, Any], machines: Machines, files: NodeFiles, reuse: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.arrivals: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.trainables = trainables
        """References to the trainable classes, by name."""
        self._reuse = reuse
        self._clock = clock
        self._machines = machines
        self._files = files
        self._of_trial: dict[str, TrialProcess] = {}
        self._idle: list[TrialProcess] = []
        self._ending: dict[int, TrialProcess] = {}
        self._number = 0
        self._actor_class = kernel.remote(TrialActor)

    def has(self, trial: Trial) -> bool:
        """Return whether a trial has a process."""
        return trial.trial_id in self._of_trial

    def first_to_begin(self) -> TrialProcess | None:
        """Return the oldest process that has not answered yet, or None."""
        return next((process for process in self._of_trial.values() if not process.has_begun), None)

    # -- orders ----------------------------------------------------------------------------------------------------

    def start(self, trial: Trial, order: Order) -> int:
        """Run a trial in a process, a kept or a new one. Return the number of the order."""
        process = self._take_idle(trial) if self._reuse else None
        if process is None:
            process = self._make(trial)
        process.trial = str(trial)
        self._of_trial[trial.trial_id] = process
        return self.ask(trial, order)

    def start_anew(self, trial: Trial, order: Order) -> int:
        """Run a trial in a new process that replaces its present one. Return the number of the order."""
        self.end(trial, gently=False)
        self._of_trial[trial.trial_id] = self._make(trial)
        return self.ask(trial, order)

    def ask(self, trial: Trial, order: Order) -> int:
        """Give an order to the process of a trial. Return the number of the order."""
        self._number += 1
        number, trial_id = self._number, trial.trial_id
        process = self._of_trial[trial_id]
        if order.restore is not None and self._machines.are_many:
            order.restore = self._portable(order.restore)
        trainable = self.trainables[trial.trainable_name] if order.setup is not None else None
        if trainable is not None:
            publish_names()

        def send() -> None:
            try:
                reference = process.actor.run.remote(order, trainable)
            except KernelError as error:  # the process is known to be dead
                self.arrivals.put((trial_id, number, None, str(error)))
            else:
                reference.future().add_done_callback(lambda future: self._arrived(trial_id, number, process, future))

        brought = self._bring_files(trial, process, order)
        if brought is None:
            send()
        else:
            brought.add_done_callback(lambda _: send())
        return number

    def _bring_files(self, trial: Trial, process: TrialProcess, order: Order) -> Future[None] | None:
        """Copy a trial's files to the machine of its process. Return a future of that, or None if there are none."""
        if order.setup is None or not self._machines.are_many:
            return None
        try:
            there = process.actor.where.remote(order.setup.place).future()
        except KernelError:  # see above
            return None
        return self._files.enter(trial, there, is_new=not (trial.results or trial.failures))

    def _arrived(self, trial_id: str, number: int, process: TrialProcess, future: Future[Any]) -> None:
        process.has_begun = True
        error = future.exception()
        if error is None:
            self.arrivals.put((trial_id, number, future.result(), ""))
        else:
            self.arrivals.put((trial_id, number, None, f"{type(error).__name__}: {error}"))

    # -- ending ----------------------------------------------------------------------------------------------------

    def end(self, trial: Trial, gently: bool = True, keep: bool = False) -> None:
        """Release the process of a trial: keep it for the next one, end it after its cleanup (`gently`), or at once."""
        process = self._of_trial.pop(trial.trial_id, None)
        if process is None:
            return
        if keep and self._reuse:
            self._idle.append(process)
            self._files.leave(trial.trial_id)
        else:
            self._files.leave(trial.trial_id, self._end(process, gently and not process.is_clean))

    def export(self, trial: Trial, formats: list[str]) -> dict[str, str]:
        """Export the model of a trial in its process, and wait for that. Return a path for each format."""
        process = self._of_trial[trial.trial_id]
        paths: dict[str, str] = kernel.get(process.actor.export.remote(formats))
        there = self._files.directory_of(trial)
        return {
            kind: os.path.join(trial.logdir, os.path.relpath(path, there)) if path.startswith(there) else path
            for kind, path in paths.items()
        }

    def end_all(self, gently: bool = True) -> None:
        """End every process."""
        for trial_id, process in self._of_trial.items():
            self._files.leave(trial_id, self._end(process, gently))
        for process in self._idle:
            self._end(process, gently)
        self._of_trial.clear()
        self._idle.clear()

    def wait_for_ends(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for the cleanup of ended processes, then kill the remaining ones."""
        deadline = self._clock() + timeout
        while self._ending and self._clock() < deadline:
            time.sleep(0.002)
        for process in list(self._ending.values()):
            _log.warning("the cleanup of trial %s took longer than %g s: it is ended", process.trial, timeout)
            self._kill(process)
        self._ending.clear()

    def _end(self, process: TrialProcess, gently: bool) -> Future[Any] | None:
        """End a process. Return a future of its cleanup, or None if there is no cleanup."""
        if not gently:
            self._kill(process)
            return None
        key = id(process)
        try:
            ended: Future[Any] = process.actor.stop.remote().future()
        except KernelError:
            self._remove_group(process)
            return None
        self._ending[key] = process
        ended.add_done_callback(lambda future: self._ended(key, future.exception()))
        return ended

    def _ended(self, key: int, error: BaseException | None) -> None:
        process = self._ending.pop(key, None)
        if process is not None:
            if isinstance(error, TaskError):
                _log.warning("the cleanup of trial %s failed: %s", process.trial, error.message)
            self._kill(process)

    def _kill(self, process: TrialProcess) -> None:
        try:
            kernel.kill(process.actor)
        except KernelError as error:
            _log.debug("a trial's process could not be ended: %s", error)
        self._remove_group(process)

    def _remove_group(self, process: TrialProcess) -> None:
        if process.group is not None:
            group, process.group = process.group, None
            kernel.remove_placement_group(group)

    # -- creation --------------------------------------------------------------------------------------------------

    def _take_idle(self, trial: Trial) -> TrialProcess | None:
        for index, process in enumerate(self._idle):
            if process.request == trial.resources and process.kind == trial.trainable_name:
                return self._idle.pop(index)
        while self._idle:  # They hold resources that the trial needs.
            self._end(self._idle.pop(), gently=True)
        return None

    def _make(self, trial: Trial) -> TrialProcess:
        request: Request = trial.resources
        bundles = request.bundles()
        options = _options(bundles[0])
        group = None
        if len(bundles) > 1:
            group = kernel.placement_group([bundle for bundle in bundles if bundle], strategy=request.strategy)
            options["scheduling_strategy"] = kernel.PlacementGroupSchedulingStrategy(
                group, 0 if bundles[0] else -1, placement_group_capture_child_tasks=True
            )
        actor = self._actor_class.options(**options).remote()
        return TrialProcess(actor, request, trial.trainable_name, str(trial), self._clock(), group)

    # -- states ----------------------------------------------------------------------------------------------------

    def receive(self, trial: Trial, answer: Answer) -> None:
        """Write files from another machine into the trial's directory, and put large states into the object store."""
        self._of_trial[trial.trial_id].is_clean = answer.is_clean
        for saved in [saved for _, saved in answer.saved] + ([answer.state] if answer.state is not None else []):
            if saved.path and saved.data is not None:
                path = os.path.join(trial.logdir, os.path.basename(saved.path))
                os.makedirs(trial.logdir, exist_ok=True)
                with being_written(trial.logdir, saved.iteration) as temporary:
                    unpack(saved.data, temporary)
                    saved.path, saved.data = publish(temporary, path), None
            elif isinstance(saved.data, bytes) and len(saved.data) > _LARGE_BYTES:
                saved.data = kernel.put(saved.data)

    def _portable(self, saved: Saved) -> Saved:
        if not saved.path or not os.path.isdir(saved.path):
            return saved
        return Saved(saved.iteration, saved.path, kernel.put(pack(saved.path)), saved.sizes)


def _options(demand: Demand) -> dict[str, Any]:
    custom = {name: amount for name, amount in demand.items() if name not in _NAMES}
    options: dict[str, Any] = {_NAMES[name]: amount for name, amount in demand.items() if name in _NAMES}
    options.setdefault("num_cpus", 0)
    if custom:
        options["resources"] = custom
    return options


_NAMES = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory", "object_store_memory": "object_store_memory"}
