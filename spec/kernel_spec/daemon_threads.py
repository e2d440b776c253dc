"""Daemon threads for functions that may block, such as reading a value or calling code of users."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue


class DaemonThreads:
    """Run functions, however many are blocked: a function that finds no idle thread gets a new one.

    Nothing waits for these threads when the program ends, unlike those of a `ThreadPoolExecutor`. A thread that has
    had no function for `idle_s` seconds ends.
    """

    def __init__(self, name: str, idle_s: float = 0.5) -> None:
        self._name = name
        self._idle_s = idle_s
        self._queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """The number of threads without a function to go on with."""

    def submit(self, function: Callable[[], object]) -> None:
        """Run `function` soon; it must not raise. Any thread may call this, under any lock."""
        self._queue.put(function)
        with self._lock:
            if self._idle:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                function = self._queue.get(timeout=self._idle_s)
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
