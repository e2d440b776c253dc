"""Make and remove the files of objects for which the store has no room, in a thread of the agent."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable

from kernel.logs import Logger
from kernel_processes.node.overflow_table import FileFailed, FileMade, MakeFile
from kernel_processes.system.daemon_pool import DaemonJob, DaemonPool
from kernel_processes.transport.reactor import Reactor
from kernel_spec.byte_sizes import readable
from kernel_spec.errors import ObjectStoreError, ObjectStoreFullError

CALL_SECONDS = 60.0
SLOWEST_BYTES_PER_SECOND = 4 << 20
"""Rate for the time limit of making a file, which is CALL_SECONDS at least."""
CLOSE_SECONDS = 5.0

Then = Callable[[FileMade | FileFailed], None]
"""Takes the result of an order."""


class OverflowFiles:
    """Makes files in `directory`, which is made with the first file. Its methods are called from the agent's loop.

    If making a file takes too long, it has failed; the file is removed if it is made after all.
    """

    def __init__(self, directory: str, reactor: Reactor) -> None:
        self.directory = directory
        self._reactor = reactor
        self._threads = DaemonPool(1, "spill", reactor.clock)  # One thread: a removal makes room for the next file.
        self._making: dict[str, tuple[MakeFile, Then]] = {}
        self._finished: list[FileMade | FileFailed] = []
        self._log = Logger("kernel.node")

    def make(self, step: MakeFile, then: Then) -> None:
        """Make a file of its full size; `then(event)` is called with what came of it."""
        self._making[step.path] = (step, then)
        if self._threads.is_blocked:
            self._done(FileFailed(step.path, self._late_error(step, "the calls before have not come back")))
            return
        job = self._threads.begin(lambda: self._done(self._make(step)))
        seconds = CALL_SECONDS + step.size / SLOWEST_BYTES_PER_SECOND
        self._reactor.call_later(seconds, lambda: self._look(step, job, seconds))

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._threads.begin(lambda: self._remove(path))

    def finish(self) -> None:
        """Pass on the results of the thread."""
        while self._finished:
            event = self._finished.pop(0)
            making = self._making.pop(event.path, None)
            if making is not None:
                making[1](event)
            elif isinstance(event, FileMade):
                self.remove(event.path)

    def explain(self) -> str:
        """Describe the work in progress; "" when there is none."""
        step = next((step for step, _ in self._making.values()), None)
        return f"a file of {readable(step.size)} is being made in {self.directory}" if step is not None else ""

    def close(self) -> None:
        """Remove everything, if the disk answers."""
        self._threads.close(CLOSE_SECONDS)
        removing = threading.Thread(target=shutil.rmtree, args=(self.directory, True), name="overflow", daemon=True)
        removing.start()
        removing.join(CLOSE_SECONDS)

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _make(self, step: MakeFile) -> FileMade | FileFailed:
        try:
            os.makedirs(self.directory, 0o700, exist_ok=True)
            descriptor = os.open(step.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _reserve(descriptor, step.size)
            except BaseException:
                os.unlink(step.path)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            return FileFailed(step.path, self._error(step, error))
        return FileMade(step.path)

    def _done(self, event: FileMade | FileFailed) -> None:
        self._finished.append(event)
        self._reactor.wake()

    def _remove(self, path: str) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        except OSError as error:
            self._log.warning("the file of an object could not be removed", path=path, reason=error.strerror)

    # -- the rest --------------------------------------------------------------------------------------------------

    def _look(self, step: MakeFile, job: DaemonJob, seconds: float) -> None:
        """Give up a file that takes too long."""
        self.finish()
        if step.path in self._making and self._threads.abandon(job):
            _, then = self._making.pop(step.path)
            then(FileFailed(step.path, self._late_error(step, f"it is not there after {seconds:.0f} s")))

    def _late_error(self, step: MakeFile, why: str) -> ObjectStoreError:
        return ObjectStoreError(
            f"a file of {readable(step.size)} can't be made in {self.directory}: {why}; "
            "see whether that place answers, or name another with spill_directory"
        )

    def _error(self, step: MakeFile, error: OSError) -> ObjectStoreError:
        what = f"a file of {readable(step.size)} can't be made in {self.directory}: {error.strerror}"
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return ObjectStoreError(f"{what}; name a place where files can be made with spill_directory")
        room = "an unknown number of"
        with contextlib.suppress(OSError):
            there = self.directory if os.path.isdir(self.directory) else os.path.dirname(self.directory)
            status = os.statvfs(there)
            room = str(status.f_bavail * status.f_frsize)
        return ObjectStoreFullError(
            f"{what} ({room} bytes are free there); make room there, name another place with spill_directory, "
            "or raise object_store_memory"
        )


def _reserve(descriptor: int, size: int) -> None:
    """Give the file all its blocks now: a full disk shows here, and not as a SIGBUS in some worker."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)
