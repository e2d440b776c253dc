"""The session of a function trainable. Reports wait in it until the process of the trial requests the next one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kernel_runs.checkpoint import Checkpoint
from kernel_runs.errors import RunError
from kernel_runs.place import Place
from kernel_runs.reports import Report
from kernel_runs.session import here, session_for
from kernel_runs.storage.directories import being_written, directory_name, publish, unfinished_directory

FARTHEST_AHEAD = 10_000
"""The largest number of reports that a function may be ahead of the reader."""

Delivery = tuple[Report, "str | None"]
"""A completed report, and the directory of its checkpoint."""


class FunctionSession:
    """A queue of the reports of one function. `fill_in(metrics, seconds)` completes a report.

    The function may be ahead of the reader of its reports. If the session is `strict`, it continues only after the
    decision about its last report.
    """

    def __init__(
        self,
        place: Place,
        fill_in: Callable[[Report, float], Report],
        checkpoint: Checkpoint | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.place = place
        self.strict = False
        self.checkpoint = checkpoint
        self.context = here
        self._fill_in = fill_in
        self._clock = clock
        self._last = clock()
        self._reports: deque[Delivery] = deque()
        self._changed = threading.Condition()
        self._is_granted = False
        self._is_taken = False
        self._stopped = False
        self._ended = False
        self._pending_directory: str | None = None

    # -- called by the function --------------------------------------------------------------------------------------

    def report(self, metrics: Report, checkpoint: Checkpoint | None = None) -> None:
        """Queue a report, and wait until the function may continue. Raises StopIteration if the trial is to stop."""
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

    def _keep(self, source: str, result: Report, moves: bool) -> str:
        """Put a checkpoint into the trial's directory, under the name of the iteration, and return its path."""
        home, iteration = self.place.directory, int(result["training_iteration"])
        path = os.path.join(home, directory_name(iteration))
        if moves:
            return publish(source, path)
        with being_written(home, iteration) as temporary:
            shutil.copytree(source, temporary, dirs_exist_ok=True)
            return publish(temporary, path)

    def dataset_shard(self, name: str | None = None) -> Any:
        """Raise RunError: a trial has only one process, and so no shards."""
        raise RunError(
            f"trial {self.place.trial_name or self.place.trial_id} has no shard of dataset {name or 'train'!r}: shards "
            "are for the workers of a training. What Tuner.fit(datasets=...) was given is in config['datasets']"
        )

    @contextlib.contextmanager
    def checkpoint_directory(self) -> Iterator[str]:
        """Provide a directory to write a checkpoint into, which belongs to the next report."""
        directory = unfinished_directory(self.place.directory)
        yield directory
        if self._pending_directory is not None:
            shutil.rmtree(self._pending_directory, ignore_errors=True)
        self._pending_directory = directory

    def end(self) -> None:
        """Note that the function has returned or raised."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # -- called by the reader ----------------------------------------------------------------------------------------

    def take(self, timeout: float) -> Delivery | None:
        """Return the next report, or None if none comes within `timeout` seconds or the function has ended."""
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
        """Whether a report is available without waiting."""
        return bool(self._reports)

    @property
    def is_over(self) -> bool:
        """Whether the function has ended and all reports were taken."""
        with self._changed:
            return self._ended and not self._reports

    @property
    def is_stopped(self) -> bool:
        """Whether the function was stopped."""
        return self._stopped

    def go_on(self) -> None:
        """Let a strict function continue after the last report that was taken."""
        with self._changed:
            if self._is_taken:
                self._is_granted, self._is_taken = True, False
                self._changed.notify_all()

    def stop(self) -> None:
        """Make the function's next report raise StopIteration."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


@contextlib.contextmanager
def checkpoint_dir(step: int) -> Iterator[str]:
    """Provide a directory to write a checkpoint into, for the next report.

    `step` has no effect: the checkpoint belongs to the iteration of the report. Raises RunError in a run that is not a
    function trainable.
    """
    session = session_for("checkpoint_dir()")
    if session is None:
        yield tempfile.mkdtemp(prefix="checkpoint_")
    elif isinstance(session, FunctionSession):
        with session.checkpoint_directory() as directory:
            yield directory
    else:
        raise RunError("checkpoint_dir() is for function trainables: give report() a checkpoint here")
