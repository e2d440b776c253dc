"""`report`, `get_checkpoint`, `get_context`, `get_dataset_shard`: they find the session of what runs here.

There is one of each for all libraries. A library that runs somebody's function has a `Session` for it, which it enters
in the thread of the function and leaves when that has ended. It is found by this thread, and by the other threads of a
process in which there is one session.
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
    """What a running function belongs to. All is called by the function's threads."""

    place: Place
    """Which run it is, and where."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint, from which the function is to go on; None if it starts anew."""

    @property
    def context(self) -> Context:
        """What `get_context` returns."""

    def report(self, metrics: Report, checkpoint: Checkpoint | None = None) -> None:
        """Take a report, and keep the checkpoint that comes with it. May wait; raises StopIteration to end the run."""

    def dataset_shard(self, name: str | None = None) -> Any:
        """Return this worker's share of a dataset. Raises RunError that says which there are where it has none."""


class Context:
    """Which run this is, and which of its workers. Everything is None outside of one.

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
        """Return what was reserved for the run."""
        place = self._place()
        return place.resources if place else None

    def get_experiment_name(self) -> str | None:
        """Return the name of the experiment that the run is one of."""
        place = self._place()
        return place.experiment_name if place else None

    def get_world_size(self) -> int:
        """Return how many workers the run has: 1, unless a library makes it more."""
        return 1

    def get_world_rank(self) -> int:
        """Return which of the workers this is, from 0 on."""
        return 0

    def get_local_world_size(self) -> int:
        """Return how many of the workers are on this node."""
        return 1

    def get_local_rank(self) -> int:
        """Return which of the workers on this node this is, from 0 on."""
        return 0

    def get_node_rank(self) -> int:
        """Return which of the run's nodes this is, from 0 on."""
        return 0


here = Context()
"""Says which run whoever asks it belongs to. For sessions with nothing more to say."""
_of_thread = threading.local()
_of_process: list[Session] = []
_warned: set[str] = set()


# -- for libraries -----------------------------------------------------------------------------------------------------


def enter(session: Session) -> None:
    """Make a session that of this thread, and of threads that have none."""
    _of_thread.session = session
    _of_thread.has_left = False
    _of_process.append(session)


def leave(session: Session) -> None:
    """Undo `enter`."""
    _of_thread.session = None
    if session in _of_process:
        _of_process.remove(session)


def leave_for_good(session: Session) -> None:
    """Have this thread belong to no run from now on: what it reports goes nowhere, without a word."""
    leave(session)
    _of_thread.has_left = True


def _has_left() -> bool:
    return getattr(_of_thread, "has_left", False)


def current() -> Session | None:
    """Return the session of what runs here, None where there is none."""
    session: Session | None = getattr(_of_thread, "session", None)
    if session is None and len(_of_process) == 1:
        return _of_process[0]
    return session


def session_for(call: str) -> Session | None:
    """Return the session of what runs here, for a `call` that needs one: `report()`, say.

    None in a program that is no run, where the call does nothing: a warning says so once, so that a training function
    can be tried by calling it. Raises RunError where it can only be a mistake: in a `Trainable` class, and in tasks and
    actors, whose reports nobody would hear.
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


# -- for what runs -----------------------------------------------------------------------------------------------------


def report(
    _metric: Report | None = None, /, metrics: Report | None = None, *, checkpoint: Checkpoint | None = None,
    **kwargs: Any,
) -> None:  # fmt: skip
    """Report metrics of what runs here, a dict or keywords, and with them a checkpoint of its state.

    May wait until somebody has decided whether the run goes on, and raises StopIteration when it does not. Outside of a
    run it does nothing; in other tasks and actors it raises RunError, as nobody would hear of what is reported there.
    Raises TypeError for what is no dict, or no checkpoint.
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
    """Return the newest checkpoint of what runs here, from which it is to go on; None if it starts anew."""
    session = session_for("get_checkpoint()")
    return session.checkpoint if session is not None else None


def get_context() -> Context:
    """Return what says which run this is, and which of its workers."""
    session = current()
    return here if session is None else session.context


def get_dataset_shard(name: str | None = None) -> Any:
    """Return this worker's share of the dataset with this name, of the only one by default.

    Raises RunError where there are no shards: outside of a training with datasets.
    """
    session = current()
    if session is None:
        raise RunError(
            f"there is no shard of dataset {name or 'train'!r} here: get_dataset_shard() is for the workers of a "
            "training that was given datasets"
        )
    return session.dataset_shard(name)


def get_trial_id() -> str | None:
    """Return the run's id, None outside of one."""
    return get_context().get_trial_id()


def get_trial_name() -> str | None:
    """Return the run's name, None outside of one."""
    return get_context().get_trial_name()


def get_trial_dir() -> str | None:
    """Return the run's directory, None outside of one."""
    return get_context().get_trial_dir()
