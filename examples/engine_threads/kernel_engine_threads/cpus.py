"""When a task may run: as many run at once as there are CPUs, and one that waits lends its CPU to others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernel_spec.daemon_threads import DaemonThreads


class Cpus:
    """A pool of threads, and the amount of CPU (in ten-thousandths) that tasks in it may have together."""

    def __init__(self, total: int) -> None:
        self.total = self.free = total
        self._lock = threading.RLock()
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._threads = DaemonThreads("kernel-cpu")
        self._mine = threading.local()

    def run(self, amount: int, task: Callable[[], None]) -> None:
        """Run a task in a thread, once that much is free. First come, first served."""
        with self._lock:
            self._waiting.append((amount, task))
            self._start()

    def _start(self) -> None:
        while self._waiting and self._waiting[0][0] <= max(self.free, 0):
            amount, task = self._waiting.popleft()
            self.free -= amount
            self._threads.submit(lambda amount=amount, task=task: self._run(amount, task))  # type: ignore[misc]

    def _run(self, amount: int, task: Callable[[], None]) -> None:
        self._mine.amount = amount
        try:
            task()
        finally:
            self._mine.amount = 0
            self._give(amount)

    def _give(self, amount: int) -> None:
        with self._lock:
            self.free += amount
            self._start()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let others have the CPU of the task that runs in this thread, if one does."""
        amount = getattr(self._mine, "amount", 0)
        self._give(amount)
        try:
            yield
        finally:
            self._give(-amount)  # at once: for a moment there may be more that run than CPUs
