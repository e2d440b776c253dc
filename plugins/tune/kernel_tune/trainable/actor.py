"""The process of a trial, which carries out orders. Only here does a user's trainable run."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Any

import kernel
from kernel_runs.checkpoint import Checkpoint
from kernel_runs.place import Place
from kernel_runs.process.devices import VisibleDevices
from kernel_runs.process.trial_output import OutputFiles
from kernel_runs.raised import carried, text_of
from kernel_runs.reports import DONE, SHOULD_CHECKPOINT, TRAINING_ITERATION, Report, look_up
from kernel_runs.storage.directories import (
    being_written,
    clear_unfinished,
    directory_name,
    pack,
    publish,
    sizes_of,
    unfinished_directory,
    unpack,
)
from kernel_runs.trainable.function import FunctionTrainable
from kernel_runs.trainable.trainable import Trainable
from kernel_tune.trainable.orders import Answer, Order, Saved, Setup
from kernel_tune.trainable.trial_directory import TrialDirectory, directory_on, trial_directory_on

LINGER_SECONDS = 0.005
"""Seconds that an answer with results waits for another one, or for the end: many functions end after a report."""
_HOME = "TUNE_ORIG_WORKING_DIR"
"""The environment variable with the directory that the process was in before it changed into the trial's."""


class TrialActor:
    """Runs one trial at a time; if the trainable can be reset, one after another."""

    def __init__(self) -> None:
        self._trainable: Trainable | None = None
        self._skip = 0
        self._printed = OutputFiles()
        self._devices = VisibleDevices()
        self._node = kernel.get_runtime_context().get_node_id()
        self._is_shared = True
        """Whether the driver sees the files of the trial's directory."""
        self._address = ""

    def where(self, place: Place) -> TrialDirectory:
        """Create a trial's directory on this machine, before `run` becomes the trial. Return where it is."""
        if not self._address:
            rows = [row for row in kernel.nodes() if row["NodeID"] == self._node]
            self._address = rows[0]["NodeManagerAddress"] if rows else place.node_ip
        return trial_directory_on(place, self._node, self._address)

    def run(self, order: Order, trainable: type[Trainable] | None = None) -> Answer:
        """Carry out an order, for a trial of `trainable`. An exception of the user's code is returned in the answer."""
        answer = Answer()
        try:
            if order.setup is not None and not self._become(order.setup, trainable):
                answer.refused = "the trainable did not take another configuration: reset_config() returned False"
                return answer
            assert self._trainable is not None
            if order.setup is not None:
                self._skip = order.skip
                answer.process = (order.setup.place.node_ip, os.getpid())
            if order.restore is not None:
                self._restore(order.restore)
            if order.trains:
                self._train(order, answer)
            else:
                self._catch_up(order)
            if order.save:
                answer.state = self._save(in_memory=order.save == "memory")
        except Exception as error:
            answer.error, answer.raised = text_of(error, "kernel_tune"), carried(error)
            self._printed.add_error(answer.error)
        answer.is_clean = isinstance(self._trainable, FunctionTrainable) and self._trainable.is_over
        if answer.is_clean:  # the process may be ended without a call of `stop`
            self._leave()
        return answer

    def export(self, formats: list[str]) -> dict[str, str]:
        """Export the model into the trial's directory. Return a path for each format."""
        assert self._trainable is not None
        return self._trainable.export_model(formats)

    def stop(self) -> None:
        """Clean up. The process ends with its handle."""
        if self._trainable is not None:
            self._trainable.stop()
        self._leave()

    def _leave(self) -> None:
        """Undo all changes to this process: in local mode it is the driver itself."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._printed.close()
        self._devices.undo()
        Place.set_current(None)
        if home := os.environ.pop(_HOME, None):
            os.chdir(home)

    # -- becoming a trial ------------------------------------------------------------------------------------------

    def _become(self, setup: Setup, trainable: type[Trainable] | None) -> bool:
        if isinstance(self._trainable, FunctionTrainable):
            self._trainable.cleanup()  # it might still write into the former trial's directory
        place = setup.place
        place.logdir, self._is_shared = directory_on(place, self._node)
        place.hostname, place.node_ip = socket.gethostname(), self._address or place.node_ip
        Place.set_current(place)
        kernel.set_title(f"trial {place.trial_name or place.trial_id}")
        self._devices.show()
        clear_unfinished(place.directory)
        self._printed.switch(place.directory, setup.printed)
        if setup.changes_directory:
            os.environ.setdefault(_HOME, os.getcwd())
            os.chdir(place.directory)
        if self._trainable is not None:
            return self._trainable.reset(setup.config, place)
        assert trainable is not None
        self._trainable = trainable(setup.config)
        self._trainable._run_place = place
        if not self._trainable.config:  # a class whose __init__ does not call ours
            self._trainable.config = setup.config
        return True

    def _restore(self, saved: Saved) -> None:
        trainable = self._trainable
        assert trainable is not None
        data = kernel.get(saved.data) if isinstance(saved.data, kernel.ObjectRef) else saved.data
        path = saved.path
        if path and data is not None and not (self._is_shared and os.path.isdir(path)):
            path = os.path.join(trainable.logdir, directory_name(saved.iteration))
            temporary = unfinished_directory(trainable.logdir)
            unpack(data, temporary)
            publish(temporary, path)
        if isinstance(trainable, FunctionTrainable):
            trainable.start_from(Checkpoint(path))
            trainable.count_from(saved.iteration)
        elif path:
            trainable.restore(path)
        else:
            trainable.restore_from_object(data)

    # -- training --------------------------------------------------------------------------------------------------

    def _train(self, order: Order, answer: Answer) -> None:
        """Train until there is something to decide, or until the time slice is over."""
        assert self._trainable is not None
        end = time.monotonic() + order.slice_seconds
        is_function = isinstance(self._trainable, FunctionTrainable)
        if isinstance(self._trainable, FunctionTrainable):
            self._trainable.be_strict(order.strict)
        while not answer.ended:
            if not self._do_iteration(order, answer):
                return
            now = time.monotonic()
            if is_function and len(answer.results) == 1:
                end = max(end, now + LINGER_SECONDS)
            if answer.results and (order.strict or now >= end):
                return

    def _catch_up(self, order: Order) -> None:
        """Repeat the iterations whose results are known already."""
        while self._skip > 0:
            answer = Answer()
            self._do_iteration(order, answer)
            if answer.ended:
                return

    def _do_iteration(self, order: Order, answer: Answer) -> bool:
        """Do one iteration. Return False if no further result is available now."""
        trainable = self._trainable
        assert trainable is not None
        directory: str | None = None
        if isinstance(trainable, FunctionTrainable):
            report = trainable.next_report(LINGER_SECONDS if answer.results else order.patience_seconds)
            if report is None:
                answer.ended = trainable.is_over
                return False
            result, directory = report
        else:
            result = trainable.train()
        if self._skip > 0:
            self._skip -= 1
            return True
        self._take(result, directory, order, answer)
        return True

    def _take(self, result: Report, directory: str | None, order: Order, answer: Answer) -> None:
        trainable = self._trainable
        assert trainable is not None
        answer.ended = bool(result.get(DONE)) or _is_reached(order.stop, result)
        result[DONE] = answer.ended
        iteration = int(result[TRAINING_ITERATION])
        if directory is not None:
            answer.saved.append((len(answer.results), self._sent(Saved(iteration, directory))))
        elif not isinstance(trainable, FunctionTrainable) and (
            result.get(SHOULD_CHECKPOINT)
            or (order.checkpoint_every and iteration % order.checkpoint_every == 0)
            or (answer.ended and order.checkpoint_at_end)
        ):
            answer.saved.append((len(answer.results), self._save(in_memory=False)))
        answer.results.append(result)

    def _save(self, in_memory: bool) -> Saved | None:
        """Save the state. Return None for a function, which saves itself with its reports."""
        trainable = self._trainable
        assert trainable is not None
        if isinstance(trainable, FunctionTrainable):
            return None
        if in_memory:
            return Saved(trainable.iteration, data=trainable.save_to_object())
        home = trainable.logdir
        with being_written(home, trainable.iteration) as temporary:
            trainable.save(temporary)
            path = publish(temporary, os.path.join(home, directory_name(trainable.iteration)))
        trainable.checkpoint_is_there(path)
        return self._sent(Saved(trainable.iteration, path))

    def _sent(self, saved: Saved) -> Saved:
        """Return the checkpoint with the sizes of its files, and with the files if the driver does not see them."""
        saved.sizes = sizes_of(saved.path)
        if not self._is_shared:
            saved.data = pack(saved.path)
        return saved


def _is_reached(stop: dict[str, float], result: Report) -> bool:
    for key, threshold in stop.items():
        value: Any = look_up(result, key)
        if value is not None and value >= threshold:
            return True
    return False
