"""A concurrency group of an actor with threads: the calls that wait in it, and the threads that run them."""

from __future__ import annotations

import threading
from collections import deque

from kernel_processes.worker.executor_base import Call


class CallGroup:
    """A queue of calls and the threads that may work on it (`limit`; the main thread counts if it takes part)."""

    def __init__(self, name: str, limit: int, with_main: bool) -> None:
        self.name = name
        self.limit = limit
        self.with_main = with_main
        self.queue: deque[Call] = deque()
        self.finished = 0
        self.helpers = 0
        self.idle_helpers = 0
        self.threads: list[threading.Thread] = []
        self.wakeup = threading.Semaphore(0)
        self.watched = False
