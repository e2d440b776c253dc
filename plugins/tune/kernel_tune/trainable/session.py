"""What a function trainable calls: `report`, `get_checkpoint`, `get_context`.

A trial that runs a function has a `Session`, found by the thread that the function runs in, and by the other threads of
a process that runs one trial. The function may be ahead of who reads its reports; a *strict* session lets it go on only
when its report was decided about.
"""

from __future__ import annotations

import contextlib
import logging
import os
import reprlib
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from numbers import Number
from typing import Any

import kernel
from kernel_tune.errors import TuneError
from kernel_tune.result import NUMBER_METRIC, Result
from kernel_tune.storage.checkpoint import Checkpoint, being_written, directory_name, publish, unfinished_directory
from kernel_tune.trainable.place import Place

_log = logging.getLogger("kernel.tune")

FARTHEST_AHEAD = 10_000
"""How many reports a function may be ahead of who reads them."""

Report = tuple[Result, "str | None"]
"""A filled result, and the directory of the checkpoint that came with it."""


class Session:
    """The reports of one function on their way to who reads them. `fill_in(metrics, seconds)` completes a result."""

    def __init__(
        self,
        place: Place,
        fill_in: Callable[[Result, float], Result],
        checkpoint: Checkpoint | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.place = place
        self.strict = False
        self.checkpoint = checkpoint
        self._fill_in = fill_in
        self._clock = clock
        self._last = clock()
        self._reports: deque[Report] = deque()
        self._changed = threading.Condition()
        self._is_granted = False
        self._is_taken = False
        self._stopped = False
        self._ended = False
        self._pending_directory: str | None = None

    # -- the function's side ---------------------------------------------------------------------------------------

    def report(self, metrics: Result, checkpoint: Checkpoint | None = None) -> None:
        """Hand over a result, and wait until the function may go on. Raises StopIteration when the trial is to stop."""
        now = self._clock()
        result = self._fill_in(metrics, now - self._last)
        source = checkpoint.path if checkpoint is not None and checkpoint.is_local else None
        if checkpoint is not None and source is None:
            source = checkpoint.to_directory()
        own, self._pending_directory = self._pending_directory, None
        directory = None
        if source is not None or own is not None:
            directory = self._keep(source or own, result, moves=source is None)  # type: ignore[arg-type]
            self.checkpoint = Checkpoint(directory)
        with self._changed:
            if self._stopped:
                raise StopIteration("the trial is to stop")
            self._reports.append((result, directory))
            self._changed.notify_all()
            self._wait_to_go_on()
        self._last = self._clock()

    def _wait_to_go_on(self) -> None:
        while not self._stopped:
            if self._is_granted if self.strict else len(self._reports) < FARTHEST_AHEAD:
                break
            self._changed.wait()
        self._is_granted = False
        if self._stopped:
            raise StopIteration("the trial is to stop")

    def _keep(self, source: str, result: Result, moves: bool) -> str:
        """Copy a checkpoint into the trial's directory, under the iteration's name."""
        home, iteration = self.place.directory, int(result["training_iteration"])
        path = os.path.join(home, directory_name(iteration))
        if moves:
            return publish(source, path)
        with being_written(home, iteration) as temporary:
            shutil.copytree(source, temporary, dirs_exist_ok=True)
            return publish(temporary, path)

    @contextlib.contextmanager
    def checkpoint_directory(self) -> Iterator[str]:
        """Give a directory to write a checkpoint into, which goes with the next report."""
        directory = unfinished_directory(self.place.directory)
        yield directory
        if self._pending_directory is not None:
            shutil.rmtree(self._pending_directory, ignore_errors=True)
        self._pending_directory = directory

    def end(self) -> None:
        """The function has returned or raised."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # -- the reader's side -----------------------------------------------------------------------------------------

    def take(self, timeout: float) -> Report | None:
        """Return the next report; None when there is none within `timeout` seconds or there will be none."""
        deadline = self._clock() + timeout
        with self._changed:
            while not self._reports:
                left = deadline - self._clock()
                if self._ended or left <= 0:
                    return None
                self._changed.wait(left)
            report = self._reports.popleft()
            self._is_taken = True
            if len(self._reports) == FARTHEST_AHEAD - 1:
                self._changed.notify_all()
            return report

    @property
    def has_more(self) -> bool:
        """Whether a report can be taken without waiting."""
        return bool(self._reports)

    @property
    def is_over(self) -> bool:
        """Whether the function has ended and everything was taken."""
        with self._changed:
            return self._ended and not self._reports

    @property
    def is_stopped(self) -> bool:
        """Whether the function was told to stop."""
        return self._stopped

    def go_on(self) -> None:
        """Let a strict function go on after the report that was taken last."""
        with self._changed:
            if self._is_taken:
                self._is_granted, self._is_taken = True, False
                self._changed.notify_all()

    def stop(self) -> None:
        """Have the function's next report raise StopIteration."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


# -- the current one ---------------------------------------------------------------------------------------------------

_of_thread = threading.local()
_of_process: list[Session] = []
_warned: set[str] = set()


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
    """Have this thread belong to no trial from now on: what it reports goes nowhere, without a word."""
    leave(session)
    _of_thread.has_left = True


def _has_left() -> bool:
    return getattr(_of_thread, "has_left", False)


def current() -> Session | None:
    """Return the session of what runs here, None outside of function trainables."""
    session = getattr(_of_thread, "session", None)
    if session is None and len(_of_process) == 1:
        return _of_process[0]
    return session


def _needed(what: str) -> Session | None:
    session = current()
    if session is None and not _has_left():
        if Place.current() is not None and not _of_process:
            raise TuneError(
                f"{what} was called in a Trainable class: it is for functions. Return the metrics from step(), and "
                "write checkpoints in save_checkpoint()"
            )
        context = kernel.get_runtime_context() if kernel.is_initialized() else None
        if context is not None and (context.get_task_id() or context.get_actor_id()):
            raise TuneError(
                f"{what} was called in task {context.get_task_name()}, which is not a trial: only a trial's own "
                "process reports. Return what is to be reported, and have the trial report it"
            )
        if what not in _warned:
            _warned.add(what)
            _log.warning("%s does nothing here: it was called outside of a trial", what)
    return session


def report(
    _metric: Result | None = None, /, metrics: Result | None = None, *, checkpoint: Checkpoint | None = None,
    **kwargs: Any,
) -> None:  # fmt: skip
    """Report metrics of the running trial, a dict or keywords, and with them a checkpoint of its state.

    May wait until a scheduler has decided whether the trial goes on, and raises StopIteration when it does not. Outside
    of a trial it does nothing; in other tasks and actors it raises TuneError, as nobody would hear of what is reported
    there. Raises TypeError for what is no dict, or no checkpoint.
    """
    for given in (_metric, metrics):
        if not isinstance(given, (dict, type(None), Mapping)):
            hint = ": report({'some_name': ...})" if _is_number(given) else ""
            raise TypeError(f"report() takes metrics as a dict or as keywords, not {reprlib.repr(given)}{hint}")
    values = {**(_metric or {}), **(metrics or {}), **kwargs}
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        hint = f": tune.Checkpoint.from_directory({checkpoint!r})" if isinstance(checkpoint, (str, os.PathLike)) else ""
        raise TypeError(f"report() takes a tune.Checkpoint as checkpoint, not {reprlib.repr(checkpoint)}{hint}")
    if not values and checkpoint is None:
        raise TypeError("report() needs metrics: a dict, or keywords")
    session = _needed("tune.report()")
    if session is not None:
        session.report(values, checkpoint)


def metrics_of(value: Any) -> Result:
    """Return what a function returns or yields as metrics: a dict, or one number, which is called `_metric`.

    Raises TypeError for anything else.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if _is_number(value):
        return {NUMBER_METRIC: value}
    raise TypeError(f"a trainable returns or yields a dict of metrics, or one number, and not {reprlib.repr(value)}")


def _is_number(value: Any) -> bool:
    """Whether a value is a number, of whatever library."""
    return isinstance(value, (Number, Decimal)) or getattr(value, "shape", None) == ()


def get_checkpoint() -> Checkpoint | None:
    """Return the newest checkpoint of the running trial, from which it is to go on; None if it starts anew."""
    session = _needed("tune.get_checkpoint()")
    return session.checkpoint if session is not None else None


@contextlib.contextmanager
def checkpoint_dir(step: int) -> Iterator[str]:
    """Give a directory to write a checkpoint into, for the next report. `step` is accepted, and the report's counts."""
    session = _needed("tune.checkpoint_dir()")
    if session is not None:
        with session.checkpoint_directory() as directory:
            yield directory
    else:
        yield tempfile.mkdtemp(prefix="checkpoint_")


class TuneContext:
    """Which trial this is. Everything is None outside of one."""

    @staticmethod
    def _place() -> Place | None:
        session = current()
        if session is not None:
            return session.place
        return None if _has_left() else Place.current()

    def get_trial_id(self) -> str | None:
        """Return the trial's id."""
        place = self._place()
        return place.trial_id if place else None

    def get_trial_name(self) -> str | None:
        """Return the trial's name."""
        place = self._place()
        return place.trial_name if place else None

    def get_trial_dir(self) -> str | None:
        """Return the trial's directory."""
        place = self._place()
        return place.directory if place else None

    def get_trial_resources(self) -> Any:
        """Return what was reserved for the trial."""
        place = self._place()
        return place.resources if place else None

    def get_experiment_name(self) -> str | None:
        """Return the experiment's name."""
        place = self._place()
        return place.experiment_name if place else None

    def get_world_size(self) -> int:
        """Return 1: a trial is one process, unless a library makes it more."""
        return 1

    def get_world_rank(self) -> int:
        """Return 0."""
        return 0


_context = TuneContext()


def get_context() -> TuneContext:
    """Return what says which trial this is."""
    return _context


def get_trial_id() -> str | None:
    """Return the running trial's id, None outside of one."""
    return _context.get_trial_id()


def get_trial_name() -> str | None:
    """Return the running trial's name, None outside of one."""
    return _context.get_trial_name()


def get_trial_dir() -> str | None:
    """Return the running trial's directory, None outside of one."""
    return _context.get_trial_dir()
