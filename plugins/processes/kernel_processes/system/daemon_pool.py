"""Run calls that may block or never return in threads: a thread that hangs is abandoned, and another replaces it."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from kernel_processes.system.starting import begin_thread

MOST_HANGING = 16
"""Maximum number of hanging calls; when it is reached no further thread is started, and jobs wait."""


class DaemonJob:
    """Holds one call. `begun` is the time at which a thread started it, None while it waits."""

    __slots__ = ("abandoned", "begun", "ended", "thread", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.thread: threading.Thread | None = None
        self.begun: float | None = None
        self.abandoned = False
        self.ended = False

    @property
    def is_under_way(self) -> bool:
        """Whether a thread runs it and it was not abandoned."""
        return self.begun is not None and not self.abandoned and not self.ended


class DaemonPool:
    """Runs jobs on up to `count` threads, started when they are needed. Its methods are called from one thread.

    The threads are daemon threads named `name`, so a call that hangs doesn't delay the end of the process. Where no
    thread can be started (`ulimit -u`), each job runs at once in the thread that submits it. `clock()` returns seconds.
    """

    def __init__(self, count: int, name: str, clock: Callable[[], float]) -> None:
        self._count = count
        self._name = name
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[tuple[bool, int, DaemonJob]] = []
        self._order = itertools.count()
        self._open: dict[DaemonJob, None] = {}
        """Jobs that have not ended, oldest first; the values are unused."""
        self._threads: set[threading.Thread] = set()
        """Threads that serve jobs, without those that hang."""
        self._hanging = 0
        self._closed = False

    @property
    def is_blocked(self) -> bool:
        """Whether MOST_HANGING calls hang, so that no other call is started."""
        return self._hanging >= MOST_HANGING

    def begin(self, work: Callable[[], object], urgent: bool = False) -> DaemonJob:
        """Run `work()` on a thread, and urgent jobs before all others. After `close` the job is abandoned at once.

        `work` must not raise: an exception would end its thread.
        """
        job = DaemonJob(work)
        with self._changed:
            if self._closed:
                job.abandoned = True
                return job
            self._open[job] = None
            heapq.heappush(self._waiting, (not urgent, next(self._order), job))
            if len(self._threads) < min(self._count, len(self._open) - self._hanging):
                self._add_thread()
            alone = not self._threads and not self.is_blocked
            self._changed.notify()
        if alone:  # No thread could be started, so the job runs here.
            self._serve(alone=True)
        return job

    def abandon(self, job: DaemonJob) -> bool:
        """Give up a job, and start another thread in place of its own; return False when it has ended already."""
        with self._changed:
            if job.ended:
                return False
            job.abandoned = True
            if job.begun is not None:
                self._hanging += 1
                if job.thread is not None:
                    self._threads.discard(job.thread)
                if not self.is_blocked:
                    self._add_thread()
            return True

    def close(self, seconds: float | None = None) -> None:
        """Start no further jobs, and wait up to `seconds` (None: without limit) for the running ones."""
        with self._changed:
            self._closed = True
            for _, _, job in self._waiting:
                job.abandoned = True
            self._waiting.clear()
            self._changed.notify_all()
            over = self._changed.wait_for(lambda: not any(job.is_under_way for job in self._open), seconds)
            idle = list(self._threads) if over else []
        for thread in idle:
            thread.join()

    def _add_thread(self) -> None:
        thread = begin_thread(self._serve, self._name)
        if thread is not None:
            self._threads.add(thread)

    def _serve(self, alone: bool = False) -> None:
        while (job := self._take(alone)) is not None:
            job.work()
            with self._changed:
                job.ended = True
                del self._open[job]
                if self._closed:
                    self._changed.notify_all()
                if job.abandoned:
                    self._hanging -= 1
                    if len(self._threads) >= self._count:
                        return
                    self._threads.add(threading.current_thread())
            del job  # It may hold much memory, and the next job may come much later.

    def _take(self, alone: bool) -> DaemonJob | None:
        """Return the next job, or None after `close`; wait for one unless `alone`, where None means none waits."""
        with self._changed:
            while True:
                while not self._waiting:
                    if self._closed or alone:
                        return None
                    self._changed.wait()
                _, _, job = heapq.heappop(self._waiting)
                if job.abandoned:
                    self._open.pop(job, None)
                    continue
                job.begun = self._clock()
                job.thread = None if alone else threading.current_thread()
                return job
