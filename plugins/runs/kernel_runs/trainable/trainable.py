"""Trainables as classes: `setup`, then `step` after `step`, with `save_checkpoint` and `load_checkpoint` in between."""

from __future__ import annotations

import os
import pickle
import shutil
import time
import uuid
from collections.abc import Callable
from typing import Any

from kernel_runs.errors import CheckpointError
from kernel_runs.place import Place
from kernel_runs.reports import (
    CONFIG,
    DATE,
    DONE,
    EPISODES_THIS_ITER,
    EPISODES_TOTAL,
    EXPERIMENT_ID,
    HOSTNAME,
    ITERATIONS_SINCE_RESTORE,
    NODE_IP,
    PID,
    TIME_SINCE_RESTORE,
    TIME_THIS_ITER_S,
    TIME_TOTAL_S,
    TIMESTAMP,
    TIMESTEPS_THIS_ITER,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
    TRIAL_ID,
    Report,
    with_plain_numbers,
)
from kernel_runs.storage.directories import directory_name, pack, unfinished_directory, unpack, written_as

_PROGRESS_FILE = ".tune_metadata"
_DICTIONARY_FILE = "checkpoint_dict.pkl"
_PROGRESS = ("_iteration", "_timesteps_total", "_episodes_total", "_time_total", "_experiment_id")


class Trainable:
    """A trial as a class: override `setup` and `step`, and the checkpoint methods if trials are to pause or resume.

    It is created in a process of its own, whose working directory is the trial's (`logdir`). `config` is the trial's
    configuration. It also works outside of an experiment: `Example({"x": 1}).train()`.
    """

    # Class attributes, for subclasses whose __init__ does not call this one.
    config: Any = {}  # noqa: RUF012 - never changed in place; a derived class may keep an object of its own here
    _given_run_place: Place | None = None
    _logger: Any = None
    _iteration = 0
    _timesteps_total = 0
    _episodes_total = 0
    _time_total = 0.0
    _time_since_restore = 0.0
    _restored_at = 0
    _experiment_id = ""

    def __init__(self, config: dict[str, Any] | None = None, logger_creator: Callable[..., Any] | None = None) -> None:
        self.config = config or {}
        if logger_creator is not None:
            self._logger = logger_creator(self.config)
            self._run_place = Place(logdir=getattr(self._logger, "logdir", "") or self._run_place.logdir)
        self.setup(dict(self.config))

    # -- to be overridden ------------------------------------------------------------------------------------------

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare. Is called once, with a copy of the configuration."""

    def step(self) -> Report:
        """Do one iteration, seconds to minutes of work, and return its metrics.

        With `done: True` the trial ends, with `should_checkpoint: True` a checkpoint is saved.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step(), which a trial calls for each iteration")

    def save_checkpoint(self, checkpoint_dir: str) -> str | dict[str, Any] | None:
        """Write the state into a directory. Return None, the directory, a path in it, or a dict instead of files.

        The directory may be moved later: the files must not depend on its path.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no save_checkpoint() and load_checkpoint(): its trials can't be paused, "
            "copied or resumed"
        )

    @classmethod
    def can_save(cls) -> bool:
        """Return whether the class overrides `save_checkpoint`."""
        return cls.save_checkpoint is not Trainable.save_checkpoint

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Restore the state that `save_checkpoint` has returned. The directory of a path may have changed."""
        raise NotImplementedError(f"{type(self).__name__} has no load_checkpoint()")

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Switch to another configuration without a new process. Return whether that was done."""
        return False

    def cleanup(self) -> None:
        """Release what the trainable holds. The process ends afterwards."""

    def log_result(self, result: Report) -> None:
        """Pass a result to the logger, if there is one. It is for subclasses with logging of their own."""
        if self._logger is not None:
            self._logger.on_result(result)

    def export(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        """Write the model in these formats. Return a path for each."""
        return {}

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """Return the resources of a trial with this configuration, or None for the default."""
        return None

    @classmethod
    def resource_help(cls, config: dict[str, Any]) -> str:
        """Return a text for users about how to configure its resources."""
        return ""

    # -- called by the runner --------------------------------------------------------------------------------------

    def train(self) -> Report:
        """Do one iteration and return its completed result. Not to be overridden."""
        began = time.monotonic()
        result = self.step()
        if not isinstance(result, dict):
            raise TypeError(f"{type(self).__name__}.step() returned {type(result).__name__}, not a dict of metrics")
        filled = self.fill_in(result, time.monotonic() - began)
        self.log_result(filled)
        return filled

    def fill_in(self, result: Report, seconds: float) -> Report:
        """Count an iteration that took `seconds`. Return a copy of its result, completed by the keys of `AUTO_KEYS`."""
        result = with_plain_numbers(result)
        self._iteration += 1
        seconds = result.setdefault(TIME_THIS_ITER_S, seconds)
        self._time_total += seconds
        self._time_since_restore += seconds
        if result.get(TIMESTEPS_THIS_ITER) is not None:
            self._timesteps_total += result[TIMESTEPS_THIS_ITER]
        if result.get(EPISODES_THIS_ITER) is not None:
            self._episodes_total += result[EPISODES_THIS_ITER]
        if self._timesteps_total or TIMESTEPS_THIS_ITER in result:
            result.setdefault(TIMESTEPS_TOTAL, self._timesteps_total)
        if self._episodes_total or EPISODES_THIS_ITER in result:
            result.setdefault(EPISODES_TOTAL, self._episodes_total)
        now = time.time()
        result.setdefault(DONE, False)
        result.setdefault(TRAINING_ITERATION, self._iteration)
        result[TRIAL_ID] = self.trial_id
        result[EXPERIMENT_ID] = self.experiment_id
        result[DATE] = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(now))
        result[TIMESTAMP] = int(now)
        result[TIME_TOTAL_S] = self._time_total
        result[TIME_SINCE_RESTORE] = self._time_since_restore
        result[ITERATIONS_SINCE_RESTORE] = self._iteration - self._restored_at
        place = self._run_place
        result[PID], result[HOSTNAME], result[NODE_IP] = os.getpid(), place.hostname, place.node_ip
        result[CONFIG] = self.config
        return result

    def save(self, checkpoint_dir: str | None = None) -> str:
        """Write a checkpoint, and the progress of the trial into it. Return a path for `restore`."""
        directory = checkpoint_dir or os.path.join(self.logdir, directory_name(self._iteration))
        os.makedirs(directory, exist_ok=True)
        value = self.save_checkpoint(directory)
        inside = ""
        if isinstance(value, dict):
            with open(os.path.join(directory, _DICTIONARY_FILE), "wb") as file:
                pickle.dump(value, file)
        elif isinstance(value, str):
            inside = _inside(directory, value, type(self).__name__)
        elif value is not None:
            raise CheckpointError(
                f"{type(self).__name__}.save_checkpoint() returned {type(value).__name__}: it may return None, a path "
                f"inside {directory}, or a dict"
            )
        progress = {name: getattr(self, name) for name in _PROGRESS}
        with open(os.path.join(directory, _PROGRESS_FILE), "wb") as file:
            pickle.dump({"progress": progress, "inside": inside, "is_dict": isinstance(value, dict)}, file)
        if checkpoint_dir is None:
            self.checkpoint_is_there(directory)
        return os.path.join(directory, inside) if inside else directory

    def checkpoint_is_there(self, path: str) -> None:
        """A checkpoint is complete and has its final name. For trainables that copy it elsewhere."""

    def restore(self, checkpoint_path: Any) -> None:
        """Continue from a path that `save` has returned, or from a `Checkpoint`."""
        path = written_as(os.path.expanduser(os.fspath(getattr(checkpoint_path, "path", checkpoint_path))))
        directory = _home_of(path)
        with open(os.path.join(directory, _PROGRESS_FILE), "rb") as file:
            saved = pickle.load(file)
        if saved["is_dict"]:
            with open(os.path.join(directory, _DICTIONARY_FILE), "rb") as file:
                self.load_checkpoint(pickle.load(file))
        else:
            self.load_checkpoint(os.path.join(directory, saved["inside"]) if saved["inside"] else directory)
        for name, value in saved["progress"].items():
            setattr(self, name, value)
        self._restored_at, self._time_since_restore = self._iteration, 0.0

    def save_to_object(self) -> bytes:
        """Return the state as bytes. It is written to a temporary directory in between."""
        temporary = unfinished_directory(self.logdir, "save_to_object")
        try:
            directory = os.path.join(temporary, f"checkpoint_{self._iteration}")
            self.save(directory)
            return pickle.dumps({"name": os.path.basename(directory), "files": pack(directory)})
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def restore_from_object(self, obj: bytes) -> None:
        """Continue from bytes that `save_to_object` has returned."""
        saved = pickle.loads(obj)
        temporary = unfinished_directory(self.logdir, "restore_from_object")
        try:
            directory = os.path.join(temporary, saved["name"])
            unpack(saved["files"], directory)
            self.restore(directory)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def delete_checkpoint(self, checkpoint_path: str) -> None:
        """Delete the local copy of a checkpoint, if it is there."""
        try:
            directory = _home_of(checkpoint_path)
        except CheckpointError:
            return
        shutil.rmtree(directory, ignore_errors=True)

    def export_model(self, export_formats: str | list[str], export_dir: str | None = None) -> dict[str, str]:
        """Export the model, by default into the trial's directory. Return a path for each format."""
        formats = [export_formats] if isinstance(export_formats, str) else list(export_formats)
        return self.export(formats, export_dir or self.logdir)

    def reset(self, new_config: dict[str, Any], place: Place | None = None) -> bool:
        """Become another trial with another configuration, without a new process. Return whether that was done."""
        if not self.reset_config(new_config):
            return False
        self.config = new_config
        if place is not None:
            self._run_place = place
        for name in (*_PROGRESS, "_time_since_restore", "_restored_at"):
            setattr(self, name, getattr(Trainable, name))
        return True

    def stop(self) -> None:
        """Close the logger, and clean up."""
        if self._logger is not None:
            self._logger.close()
        self.cleanup()

    # -- attributes ------------------------------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """Return the configuration."""
        config: dict[str, Any] = self.config
        return config

    @property
    def _run_place(self) -> Place:
        """The trial that it runs as, and the machine."""
        if self._given_run_place is None:
            self._given_run_place = Place.current() or Place()
        return self._given_run_place

    @_run_place.setter
    def _run_place(self, place: Place) -> None:
        self._given_run_place = place

    @property
    def iteration(self) -> int:
        """The number of iterations that were done."""
        return self._iteration

    training_iteration = iteration

    @property
    def experiment_id(self) -> str:
        """An id of this state, which is kept over checkpoint and restore."""
        if not self._experiment_id:
            self._experiment_id = uuid.uuid4().hex
        return self._experiment_id

    @property
    def logdir(self) -> str:
        """The directory of the trial's results, checkpoints and other files. A temporary one outside of experiments."""
        return self._run_place.directory

    @property
    def trial_id(self) -> str | None:
        """The trial's id, or None outside of an experiment."""
        return self._run_place.trial_id

    @property
    def trial_name(self) -> str | None:
        """The trial's name, or None outside of an experiment."""
        return self._run_place.trial_name

    @property
    def trial_resources(self) -> Any:
        """The resources that are reserved for the trial, or None outside of an experiment."""
        return self._run_place.resources


def _inside(directory: str, value: str, name: str) -> str:
    relative = os.path.relpath(value, directory)
    if os.path.isabs(value) and relative.split(os.sep)[0] != "..":
        return "" if relative == "." else relative
    raise CheckpointError(
        f"{name}.save_checkpoint() returned the path {value}, which is not in the directory that it was given, "
        f"{directory}: write there, and return that directory, a path in it, or a dict"
    )


def _home_of(path: str) -> str:
    """Return the directory that `save` wrote, from its path, a path in it, or the start of a file name in it."""
    folder = path
    while True:
        if os.path.exists(os.path.join(folder, _PROGRESS_FILE)):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            raise CheckpointError(
                f"{path} is not a checkpoint of a trainable: there is no {_PROGRESS_FILE} in it or above it"
            )
        folder = parent
