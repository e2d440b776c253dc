"""Run in a thread what could not run at once: tasks whose arguments came late, actors that wait for resources.

They run one after another. One that blocks in `get` steps aside and the next one starts.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

THREAD_NAME = "kernel-local"


class Helpers:
    """Queues functions, and runs them in at most one thread at a time that is not blocked."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # A destructor may make a call while the queue is read.
        self._queue: deque[Callable[[], None]] = deque()
        self._active = 0
        self._threads: set[int] = set()

    def submit(self, function: Callable[[], None]) -> None:
        """Run `function` soon."""
        self._queue.append(function)
        self._start_if_free()

    def blocked(self) -> None:
        """Let another thread work, if the calling one is of these, since it is about to block."""
        if threading.get_ident() in self._threads:
            with self._lock:
                self._active -= 1
            self._start_if_free()

    def unblocked(self) -> None:
        """Note that the calling thread goes on after `blocked`."""
        if threading.get_ident() in self._threads:
            with self._lock:
                self._active += 1

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued and every thread is blocked."""
        return not self._queue and self._active == 0

    def _start_if_free(self) -> None:
        with self._lock:
            if self._active > 0 or not self._queue:
                return
            self._active += 1
        threading.Thread(target=self._work, name=THREAD_NAME, daemon=True).start()

    def _work(self) -> None:
        thread = threading.get_ident()
        self._threads.add(thread)
        try:
            while (function := self._next()) is not None:
                try:
                    function()
                except KeyboardInterrupt:
                    continue  # A cancellation came too late for its call.
        finally:
            with self._lock:
                self._active -= 1
            self._threads.discard(thread)
            self._start_if_free()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            return self._queue.popleft() if self._queue and self._active == 1 else None
