"""`report`, `get_checkpoint`, `get_context` and `get_dataset_shard`, which find the session of the running function.

There is one of each for all libraries. A library that runs a user's function makes a `Session` for it, enters it in the
thread of the function, and leaves it when the function has ended. Calls in this thread find it. So do calls in other
threads, if the process has only one session.
"""

from __future__ import annotations

import logging
import os
import reprlib
import threading
from collections.abc import Mapping
from typing import Any, Protocol

import kernel
from kernel_runs.checkpoint import Checkpoint
from kernel_runs.errors import RunError
from kernel_runs.place import Place
from kernel_runs.reports import Report, is_number

_log = logging.getLogger("kernel.runs")


class Session(Protocol):
    """What a library provides for a running function. All methods are called in the function's threads."""

    place: Place
    """The run, and the machine that it is on."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint, from which the function is to continue; None if it begins anew."""

    @property
    def context(self) -> Context:
        """The return value of `get_context`."""

    def report(self, metrics: Report, checkpoint: Checkpoint | None = None) -> None:
        """Take a report, and keep its checkpoint. May wait. Raises StopIteration to end the run."""

    def dataset_shard(self, name: str | None = None) -> Any:
        """Return this worker's share of a dataset. Raises RunError that lists the datasets, if there is no such one."""


class Context:
    """Describes the current run, and which of its workers this process is. Everything is None outside of a run.

    A library whose runs have several workers derives from it.
    """

    @staticmethod
    def _place() -> Place | None:
        session = current()
        if session is not None:
            return session.place
        return None if _has_left() else Place.current()

    def get_trial_id(self) -> str | None:
        """Return the run's id."""
        place = self._place()
        return place.trial_id if place else None

    def get_trial_name(self) -> str | None:
        """Return the run's name."""
        place = self._place()
        return place.trial_name if place else None

    def get_trial_dir(self) -> str | None:
        """Return the run's directory."""
        place = self._place()
        return place.directory if place else None

    def get_trial_resources(self) -> Any:
        """Return the resources that are reserved for the run."""
        place = self._place()
        return place.resources if place else None

    def get_experiment_name(self) -> str | None:
        """Return the name of the run's experiment."""
        place = self._place()
        return place.experiment_name if place else None

    def get_world_size(self) -> int:
        """Return the number of workers of the run: 1, unless a library has more."""
        return 1

    def get_world_rank(self) -> int:
        """Return the rank of this worker among all workers, from 0 on."""
        return 0

    def get_local_world_size(self) -> int:
        """Return the number of workers on this node."""
        return 1

    def get_local_rank(self) -> int:
        """Return the rank of this worker among those on this node, from 0 on."""
        return 0

    def get_node_rank(self) -> int:
        """Return the rank of this node among those of the run, from 0 on."""
        return 0


here = Context()
"""Describes the run of the calling thread. For sessions without more to describe."""
_of_thread = threading.local()
_of_process: list[Session] = []
_warned: set[str] = set()


# -- for libraries -----------------------------------------------------------------------------------------------------


def enter(session: Session) -> None:
    """Make a session the one of this thread, and of threads without a session of their own."""
    _of_thread.session = session
    _of_thread.has_left = False
    _of_process.append(session)


def leave(session: Session) -> None:
    """Undo `enter`."""
    _of_thread.session = None
    if session in _of_process:
        _of_process.remove(session)


def leave_for_good(session: Session) -> None:
    """Detach this thread from its run. What it reports from now on is ignored without a warning."""
    leave(session)
    _of_thread.has_left = True


def _has_left() -> bool:
    return getattr(_of_thread, "has_left", False)


def current() -> Session | None:
    """Return the session of the calling thread, or None."""
    session: Session | None = getattr(_of_thread, "session", None)
    if session is None and len(_of_process) == 1:
        return _of_process[0]
    return session


def session_for(call: str) -> Session | None:
    """Return the session of the calling thread for a `call` that needs one, such as `report()`.

    Returns None outside of a run, where the call has no effect, so that a training function can be tried by calling it;
    a warning says so once. Raises RunError where the call must be a mistake: in a `Trainable` class, and in tasks and
    actors, whose reports would be lost.
    """
    session = current()
    if session is not None or _has_left():
        return session
    if Place.current() is not None and not _of_process:
        raise RunError(
            f"{call} was called in a Trainable class: it is for functions. Return the metrics from step(), and "
            "write checkpoints in save_checkpoint()"
        )
    context = kernel.get_runtime_context() if kernel.is_initialized() else None
    if context is not None and (context.get_task_id() or context.get_actor_id()):
        raise RunError(
            f"{call} was called in task {context.get_task_name()}, which is not a trial: only a trial's own "
            "process reports. Return what is to be reported, and have the trial report it"
        )
    if call not in _warned:
        _warned.add(call)
        _log.warning("%s does nothing here: it was called outside of a run", call)
    return None


# -- for users' functions ----------------------------------------------------------------------------------------------


def report(
    _metric: Report | None = None, /, metrics: Report | None = None, *, checkpoint: Checkpoint | None = None,
    **kwargs: Any,
) -> None:  # fmt: skip
    """Report metrics of the current run, given as a dict or as keywords, and optionally a checkpoint of its state.

    May wait for the decision whether the run continues, and raises StopIteration if it does not. Outside of a run it
    has no effect. In tasks and actors that are not runs it raises RunError, as the report would be lost. Raises
    TypeError for metrics that are not a dict, and for a checkpoint that is not a `Checkpoint`.
    """
    for given in (_metric, metrics):
        if not isinstance(given, (dict, type(None), Mapping)):
            hint = ": report({'some_name': ...})" if is_number(given) else ""
            raise TypeError(f"report() takes metrics as a dict or as keywords, not {reprlib.repr(given)}{hint}")
    values = {**(_metric or {}), **(metrics or {}), **kwargs}
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        hint = f": Checkpoint.from_directory({checkpoint!r})" if isinstance(checkpoint, (str, os.PathLike)) else ""
        raise TypeError(f"report() takes a Checkpoint as checkpoint, not {reprlib.repr(checkpoint)}{hint}")
    if not values and checkpoint is None:
        raise TypeError("report() needs metrics: a dict, or keywords")
    session = session_for("report()")
    if session is not None:
        session.report(values, checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """Return the newest checkpoint of the current run, from which it is to continue; None if it begins anew."""
    session = session_for("get_checkpoint()")
    return session.checkpoint if session is not None else None


def get_context() -> Context:
    """Return the context, which describes the current run and the place of this worker in it."""
    session = current()
    return here if session is None else session.context


def get_dataset_shard(name: str | None = None) -> Any:
    """Return this worker's share of the dataset with this name; without a name, of the only dataset.

    Raises RunError if there are no shards: outside of a training with datasets.
    """
    session = current()
    if session is None:
        raise RunError(
            f"there is no shard of dataset {name or 'train'!r} here: get_dataset_shard() is for the workers of a "
            "training that was given datasets"
        )
    return session.dataset_shard(name)


def get_trial_id() -> str | None:
    """Return the run's id, or None outside of a run."""
    return get_context().get_trial_id()


def get_trial_name() -> str | None:
    """Return the run's name, or None outside of a run."""
    return get_context().get_trial_name()


def get_trial_dir() -> str | None:
    """Return the run's directory, or None outside of a run."""
    return get_context().get_trial_dir()
