"""Threads for deliveries that may block: reading a value from the store, and user code that waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

THREAD_NAME = "kernel-delivery"
_IDLE_SECONDS = 0.5


class DeliveryThreads:
    """Run functions as they come, however many are blocked: a function that finds no idle thread gets a new one.

    A thread that has found nothing to do for a moment ends.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """The number of threads without a function to go on with."""

    def submit(self, function: Callable[[], None]) -> None:
        """Run `function` soon. Any thread, under any lock."""
        self._queue.put(function)
        with self._lock:
            if self._idle:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name=THREAD_NAME, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                function = self._queue.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                continue
            function()
            del function  # it may hold the last reference to a value
            with self._lock:
                self._idle += 1
