"""Daemon threads that run what blocks: one that is idle is taken first, and one that stays idle ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

_IDLE_SECONDS = 1.0


class DaemonThreads:
    """Runs functions, however many of them block."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def start(self, function: Callable[[], Any]) -> None:
        """Run `function` soon, in a thread."""
        self._queue.put(function)
        with self._lock:
            if self._idle:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

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
