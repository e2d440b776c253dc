"""Threads for calls that may never return: one that hangs is left behind, and another takes its place."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from kernel.threads import begin_thread

MOST_HANGING = 16
"""How many calls may be left behind at a time; then nobody takes their place, and what is to be done waits."""


class SpillJob:
    """One call. `begun` is when a thread took it up, None while it waits."""

    __slots__ = ("abandoned", "begun", "ended", "work")

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.begun: float | None = None
        self.abandoned = False
        self.ended = False


class SpillThreads:
    """Does jobs on up to `count` threads, started when they are needed. Its methods are called from one thread.

    The threads are daemons: a call that hangs doesn't hold up the end of the process.
    """

    def __init__(self, count: int, clock: Callable[[], float]) -> None:
        self._count = count
        self._clock = clock
        self._jobs: queue.SimpleQueue[SpillJob | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._open: dict[SpillJob, None] = {}
        """What has not ended, the oldest first."""
        self._threads = 0
        self._hanging = 0

    @property
    def is_blocked(self) -> bool:
        """Whether so many calls hang that no other is begun."""
        return self._hanging >= MOST_HANGING

    def begin(self, work: Callable[[], None]) -> SpillJob:
        """Have `work` done, which raises nothing."""
        job = SpillJob(work)
        with self._changed:
            self._open[job] = None
            busy = len(self._open) - self._hanging
            if self._threads < min(self._count, busy):
                self._add_thread()
            alone = not self._threads and not self.is_blocked
        self._jobs.put(job)
        if alone:  # there is room for no thread: it is done here and now
            self._jobs.put(None)
            self._serve()
        return job

    def abandon(self, job: SpillJob) -> bool:
        """Leave a job behind, and begin the next in its place; return False when it has just ended."""
        with self._changed:
            if job.ended:
                return False
            job.abandoned = True
            if job.begun is not None:
                self._hanging += 1
                self._threads -= 1
                if not self.is_blocked:
                    self._add_thread()
            return True

    def close(self, seconds: float) -> None:
        """Begin nothing more, and wait up to `seconds` for what was begun."""
        with self._changed:
            for job in self._open:
                if job.begun is None:
                    job.abandoned = True
            for _ in range(self._threads + self._hanging):
                self._jobs.put(None)
            self._changed.wait_for(lambda: not any(self._is_under_way(job) for job in self._open), seconds)

    @staticmethod
    def _is_under_way(job: SpillJob) -> bool:
        return job.begun is not None and not job.abandoned

    def _add_thread(self) -> None:
        if begin_thread(self._serve, "spill") is not None:
            self._threads += 1

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._changed:
                if job.abandoned:
                    self._open.pop(job, None)
                    continue
                job.begun = self._clock()
            job.work()
            with self._changed:
                job.ended = True
                del self._open[job]
                self._changed.notify_all()
                if job.abandoned:
                    self._hanging -= 1
                    if self._threads >= self._count:
                        return
                    self._threads += 1
