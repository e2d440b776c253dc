"""Run a concurrency group of calls: keep its waiting calls, and the threads that run them beside the main thread.

A thread joins in only when calls get stuck behind each other: when calls wait and none has finished for a millisecond.
Quick calls never pay for a hop between threads, and each call that blocks gets a thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from kernel.runtime.critical_sections import is_from_outside
from kernel_processes.runtime.process import Process
from kernel_processes.system.starting import NO_ROOM, begin_thread
from kernel_processes.worker.executor_base import Call

_STUCK_SECONDS = 0.001


class CallGroup:
    """Holds a queue of calls and the threads that may work on it (`limit`; the main thread counts if it takes part).

    `drain(group)` runs the waiting calls, until none is left or the executor `has_ended()`. The methods are called
    under the lock of the process `io`, but for `join`.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        with_main: bool,
        io: Process,
        drain: Callable[[CallGroup], None],
        has_ended: Callable[[], bool],
    ) -> None:
        self.name = name
        self.limit = limit
        self.with_main = with_main
        self.queue: deque[Call] = deque()
        self.finished = 0
        """The number of calls that have ended."""
        self._io = io
        self._drain = drain
        self._has_ended = has_ended
        self._helpers = 0
        self._idle_helpers = 0
        self._threads: list[threading.Thread] = []
        self._wakeup = threading.Semaphore(0)
        self._watched = False

    def watch(self) -> None:
        """A call has come: look soon whether the calls of this group get stuck behind each other."""
        if not self.with_main and self._helpers < self.limit and self._idle_helpers == 0:
            self._start_helper()
        elif not self.with_main and self._idle_helpers:
            self._wakeup.release()
        if not self._watched:
            self._look_soon()
            self._io.pump.flush_soon()

    def wake(self) -> None:
        """Have the threads look whether the executor has ended."""
        for _ in range(self._helpers):
            self._wakeup.release()

    def join(self, deadline: float) -> None:
        """Wait for the calls that run in the threads, until `deadline` (monotonic seconds)."""
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _look_soon(self) -> None:
        self._watched = True
        finished = self.finished
        self._io.reactor.call_later(_STUCK_SECONDS, lambda: self._unstick(finished))

    def _unstick(self, finished: int) -> None:
        self._watched = False
        if not self.queue:
            return
        if self.finished == finished:
            busy = self._helpers - self._idle_helpers + (1 if self.with_main else 0)
            if busy >= self.limit:
                return  # Each thread takes the next call when it is done.
            for _ in range(min(len(self.queue), self.limit - busy, max(1, busy))):
                if self._idle_helpers:
                    self._wakeup.release()
                elif self._helpers + (1 if self.with_main else 0) < self.limit:
                    self._start_helper()
        if not self._watched and self.queue:
            self._look_soon()

    def _start_helper(self) -> None:
        self._helpers += 1
        thread = begin_thread(self._help, f"kernel-call-{self.name or self._helpers}")
        if thread is not None:
            self._threads.append(thread)
            return
        self._helpers -= 1  # Queued calls wait for another thread, or the group's next check.
        self._io.log.error(f"no thread can be started for a call: {NO_ROOM}")

    def _help(self) -> None:
        while not self._has_ended():
            try:
                self._drain(self)
            except KeyboardInterrupt:
                continue  # A cancellation came too late for its call.
            except Exception as error:
                if not is_from_outside(error):
                    raise
            self._idle_helpers += 1
            if not self.queue and not self._has_ended():
                self._wakeup.acquire()
            self._idle_helpers -= 1
