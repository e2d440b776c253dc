"""The trial executor that runs trials as processes of kernel."""

from __future__ import annotations

import logging
import os
import time
import uuid
from typing import Any

import kernel
from kernel.runs.checkpoint import Checkpoint
from kernel.runs.errors import TrialError
from kernel.runs.pickling import put
from kernel.runs.place import Place
from kernel.runs.reports import DONE, Report
from kernel.runs.resources import make_request, total
from kernel.runs.storage.places import results_directory
from kernel.runs.trainable.registry import find_trainable
from kernel.tune.errors import TuneError
from kernel.tune.execution.machines import Machines
from kernel.tune.execution.node_files import NodeFiles
from kernel.tune.execution.processes import Processes
from kernel.tune.execution.resources import Room
from kernel.tune.trainable.orders import Answer, Order, Saved, Setup
from kernel.tune.trial import Status, Trial
from kernel_compat_ray.tune.trial_executor import AbortTrialExecution, TrialExecutor

_log = logging.getLogger("kernel.tune")


class RayTrialExecutor(TrialExecutor):
    """Starts, asks, pauses and stops trials, each in a process of its own. One that is asked makes one iteration.

    Trials are `Trial("name", config={...})` of a registered trainable; what they lack (id, directory, resources) they
    are given. With `reuse_actors` a stopped trial's process runs the next one. What the cluster has is looked up when
    that is older than `refresh_period` seconds. With `ray_auto_init` a session of kernel is started if there is none.
    """

    def __init__(self, queue_trials: bool = False, reuse_actors: bool = False, ray_auto_init: bool = False,
                 refresh_period: float = 0.5) -> None:  # fmt: skip
        super().__init__(queue_trials)
        self.reuse_actors = reuse_actors
        self._ray_auto_init = ray_auto_init
        self._refresh_period = refresh_period
        self._refreshed_at = float("-inf")
        self._room = Room()
        self._made: tuple[Machines, Processes] | None = None
        self._trials: dict[str, Trial] = {}
        self._asked: dict[str, int] = {}
        """By trial id, the number of the request that the trial's process has not answered yet."""
        self._answers: dict[str, Answer | str] = {}
        """By trial id, answers that were not fetched yet, or the reason why there is none."""
        self._kept: dict[str, Answer | str] = {}
        """The same for paused trials."""
        self._states: dict[str, Saved] = {}
        """The checkpoints from which paused trials continue."""
        self._newest: dict[str, Saved] = {}
        """The checkpoint of each trial that was written last."""

    # -- starting and stopping -------------------------------------------------------------------------------------

    def start_trial(self, trial: Trial, checkpoint: Any = None, train: bool = True) -> bool:
        """Start a trial, from a checkpoint if one is given; with `train` it makes its first iteration at once.

        Return whether it runs; one that could not begin has failed then. Raises TuneError where there is no room.
        """
        self._complete(trial)
        demand = total(trial.resources.bundles())
        self._refresh()
        if not self._room.fits(demand) and not self.queue_trials:
            raise TuneError(f"no room for trial {trial}: in use are {self.resource_string()}; queue_trials=True waits")
        self._room.take(demand)
        self._trials[trial.trial_id] = trial
        self.set_status(trial, Status.RUNNING)
        state = _as_saved(checkpoint) if checkpoint is not None else self._states.pop(trial.trial_id, None)
        order = Order(setup=self._setup(trial), restore=state, trains=train)
        if train:
            self._begin(trial, order)
            return True
        reason = _why_not(self._ask_and_wait(trial, order))
        if reason:
            self.stop_trial(trial, error=True, error_msg=reason)
        return not reason

    def stop_trial(
        self, trial: Trial, error: bool = False, error_msg: str | None = None, stop_logger: bool = True
    ) -> None:
        """End a trial, in error or well; its process and resources are free then. Raises nothing."""
        if error_msg:
            trial.error_message = error_msg
        try:
            self._release(trial)
        except Exception as problem:  # the process may be in any state
            _log.error("trial %s could not be stopped: %s", trial, problem)
            error = True
        self.set_status(trial, Status.ERROR if error else Status.TERMINATED)

    def continue_training(self, trial: Trial) -> None:
        """Have a running trial make another iteration."""
        self._begin(trial, Order())

    def pause_trial(self, trial: Trial) -> None:
        """Save a trial in memory, and free its process and resources. A result that is on its way is kept for later."""
        if trial.trial_id in self._asked:
            self._answers[trial.trial_id] = self._wait_for(trial)
        if trial.trial_id in self._answers:
            self._kept[trial.trial_id] = self._answers[trial.trial_id]
        state = self._save(trial, "memory")
        self._release(trial)
        if state is not None:
            self._states[trial.trial_id] = state
        self.set_status(trial, Status.PAUSED)

    def resume_trial(self, trial: Trial) -> None:
        """Have a paused trial go on where it was; returns when it does."""
        if trial.status is not Status.PAUSED:
            raise TuneError(f"trial {trial} is {trial.status}: only a paused one can be resumed")
        kept = self._kept.pop(trial.trial_id, None)
        runs = self.start_trial(trial, train=False)
        if kept is not None:
            self._answers[trial.trial_id] = kept
        elif runs:
            self.continue_training(trial)

    def reset_trial(self, trial: Trial, new_config: dict[str, Any], new_experiment_tag: str) -> bool:
        """Have a trial's process go on with another configuration; return whether its trainable takes that."""
        trial.config, trial.experiment_tag = new_config, new_experiment_tag
        answer = self._ask_and_wait(trial, Order(setup=self._setup(trial), trains=False))
        return not _why_not(answer)

    def cleanup(self, trial: Trial | None = None) -> None:
        """End the processes of all trials, or of one, and wait for what they clean up."""
        for each in [trial] if trial is not None else list(self._trials.values()):
            self._release(each)
        if trial is None and self._made is not None:
            self._processes.end_all()
            self._processes.wait_for_ends(10.0)

    # -- results ---------------------------------------------------------------------------------------------------

    def get_running_trials(self) -> list[Trial]:
        """Return the trials that run, in the order in which they were started."""
        return [trial for trial in self._trials.values() if trial.status is Status.RUNNING]

    def get_next_available_trial(self) -> Trial:
        """Wait until a trial has a result, or has failed, and return it. Raises TuneError if none was asked for one."""
        while not self._answers:
            if not self._asked:
                raise TuneError("no trial was asked for a result: start_trial() or continue_training() asks")
            self._take(*self._processes.arrivals.get())
        return self._trials[next(iter(self._answers))]

    def get_next_failed_trial(self) -> Trial | None:
        """Return a trial whose process or node has died, None if none is known. Does not wait."""
        while self._made is not None and not self._processes.arrivals.empty():
            self._take(*self._processes.arrivals.get())
        return next((self._trials[name] for name, answer in self._answers.items() if isinstance(answer, str)), None)

    def fetch_result(self, trial: Trial) -> Report:
        """Return the result of a trial's last iteration; waits for it. `done` is true in its last one.

        Raises TrialError with the traceback where the trial has failed.
        """
        answer = self._wait_for(trial)
        reason = _why_not(answer)
        if reason or isinstance(answer, str):
            trial.error_message = reason
            raise TrialError(f"trial {trial} has failed: {reason}")
        for _, saved in answer.saved:
            self._newest[trial.trial_id] = saved
        if answer.results:
            trial.last_result = answer.results[-1]
            trial.results += len(answer.results)
        if answer.ended:
            trial.last_result = {**trial.last_result, DONE: True}
        return trial.last_result

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def save(self, trial: Trial, storage: str = "persistent", result: Report | None = None) -> Any:
        """Save a trial, on disk or in "memory"; return what `restore` and `start_trial` take, None if that fails."""
        if result is not None:
            trial.last_result = result
        state = self._save(trial, "memory" if storage == "memory" else "disk")
        if state is None or not state.path:
            return state
        self._newest[trial.trial_id] = state
        return Checkpoint(state.path)

    def restore(self, trial: Trial, checkpoint: Any = None, block: bool = False) -> bool:
        """Have a running trial go on from a checkpoint, its newest by default; return False if that fails: it has then.

        Raises RuntimeError for a trial without a process, AbortTrialExecution where the checkpoint is not there.
        """
        if self._made is None or not self._processes.has(trial):
            raise RuntimeError(f"trial {trial} has no process to restore into: start_trial() gives it one")
        state = _as_saved(checkpoint) if checkpoint is not None else self._newest.get(trial.trial_id)
        if state is None:
            return True
        if state.path and not os.path.isdir(state.path):
            raise AbortTrialExecution(f"trial {trial} can't go on from {state.path}: it is not on this machine")
        reason = _why_not(self._ask_and_wait(trial, Order(restore=state, trains=False)))
        if reason:
            self.stop_trial(trial, error=True, error_msg=reason)
        return not reason

    def export_trial_if_needed(self, trial: Trial) -> dict[str, str]:
        """Export a trial's model in the formats of its `export_formats`; return a path for each."""
        formats = list(getattr(trial, "export_formats", None) or trial.extra.get("export_formats") or [])
        return self._processes.export(trial, formats) if formats else {}

    def _save(self, trial: Trial, where: str) -> Saved | None:
        answer = self._ask_and_wait(trial, Order(trains=False, save=where))
        reason = _why_not(answer)
        if reason or isinstance(answer, str):
            _log.warning("trial %s could not be saved: %s", trial, reason)
            return None
        return answer.state or self._newest.get(trial.trial_id)

    # -- resources -------------------------------------------------------------------------------------------------

    def has_resources(self, resources: Any) -> bool:
        """Return whether so much is free; `resources` are as in `resources_per_trial`."""
        self._refresh()
        return self._room.fits(total(make_request(resources).bundles()))

    def has_gpus(self) -> bool:
        """Return whether the cluster has any."""
        self._refresh()
        return self._room.capacity.get("GPU", 0.0) > 0

    def resource_string(self) -> str:
        """Return what there is, and how much of it trials use: `1/2 CPU`."""
        self._refresh()
        used, capacity = self._room.used, self._room.capacity
        names = [name for name in sorted(capacity) if "memory" not in name]
        return ", ".join(f"{used.get(name, 0.0):g}/{capacity[name]:g} {name}" for name in names)

    def debug_string(self) -> str:
        """Return the same as a line to show."""
        return f"Resources used: {self.resource_string()}"

    def on_step_begin(self, trial_runner: Any) -> None:
        """See `TrialExecutor`. Looks up what the cluster has."""
        self._refresh()

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._refreshed_at > self._refresh_period:
            self._begin_session()
            found = kernel.cluster_resources().items()
            self._room.capacity = {name: float(amount) for name, amount in found if not name.startswith("node:")}
            self._refreshed_at = now

    # -- processes -------------------------------------------------------------------------------------------------

    @property
    def _processes(self) -> Processes:
        return self._begin_session()[1]

    def _begin_session(self) -> tuple[Machines, Processes]:
        if self._made is None:
            if not kernel.is_initialized():
                if not self._ray_auto_init:
                    raise TuneError("there is no session: call kernel.init(), or say ray_auto_init=True")
                kernel.init()
            machines = Machines()
            self._made = machines, Processes({}, machines, NodeFiles({}), self.reuse_actors)
        return self._made

    def _complete(self, trial: Trial) -> None:
        trial.trial_id = trial.trial_id or uuid.uuid4().hex[:8]
        trial.local_dir = trial.local_dir or results_directory()
        trial.name = trial.name or str(trial)
        trainable = find_trainable(trial.trainable_name)
        if trial.resources is None:
            trial.resources = trainable.default_resource_request(trial.config)
        trial.resources = make_request(trial.resources)
        known = self._processes.trainables
        if trial.trainable_name not in known:
            known[trial.trainable_name] = put(trainable, f"trainable {trial.trainable_name}", trial.trainable_name, "")

    def _setup(self, trial: Trial) -> Setup:
        machines, _ = self._begin_session()
        place = Place(
            trial.trial_id, str(trial), None, trial.logdir, trial.resources, "", trial.local_dir, machines.node,
            machines.marker_in(trial.local_dir),
        )  # fmt: skip
        return Setup(place, trial.config)

    def _begin(self, trial: Trial, order: Order) -> None:
        if trial.trial_id in self._asked or trial.trial_id in self._answers:
            raise TuneError(f"trial {trial} was asked for a result already: fetch_result() before the next")
        has = self._processes.has(trial)
        if not has and order.setup is None:
            raise TuneError(f"trial {trial} is {trial.status} and has no process: start_trial() gives it one")
        ask = self._processes.ask if has else self._processes.start
        self._asked[trial.trial_id] = ask(trial, order)

    def _ask_and_wait(self, trial: Trial, order: Order) -> Answer | str:
        """Ask a trial something; a result that is on its way comes first, and is kept."""
        kept = self._wait_for(trial) if trial.trial_id in (*self._asked, *self._answers) else None
        self._begin(trial, order)
        answer = self._wait_for(trial)
        if kept is not None:
            self._answers[trial.trial_id] = kept
        return answer

    def _wait_for(self, trial: Trial) -> Answer | str:
        while trial.trial_id not in self._answers:
            if trial.trial_id not in self._asked:
                raise TuneError(f"trial {trial} was not asked for a result: continue_training() asks")
            self._take(*self._processes.arrivals.get())
        return self._answers.pop(trial.trial_id)

    def _take(self, trial_id: str, number: int, answer: Answer | None, error: str) -> None:
        if self._asked.get(trial_id) != number:
            return
        trial = self._trials[trial_id]
        del self._asked[trial_id]
        if answer is None:
            self._answers[trial_id] = f"its process gave no answer: {error}"
            return
        self._processes.receive(trial, answer)
        self._answers[trial_id] = answer

    def _release(self, trial: Trial) -> None:
        """Take process and resources from a trial."""
        self._asked.pop(trial.trial_id, None)
        self._answers.pop(trial.trial_id, None)
        if self._made is not None and self._processes.has(trial):
            self._processes.end(trial, keep=self.reuse_actors)
            self._room.give_back(total(trial.resources.bundles()))


def _why_not(answer: Answer | str) -> str:
    """Return why an order was not carried out, nothing if it was."""
    return answer if isinstance(answer, str) else answer.error or answer.refused


def _as_saved(checkpoint: Any) -> Saved:
    if isinstance(checkpoint, Saved):
        return checkpoint
    if isinstance(checkpoint, bytes):
        return Saved(0, data=checkpoint)
    return Saved(0, os.fspath(getattr(checkpoint, "path", checkpoint)))
