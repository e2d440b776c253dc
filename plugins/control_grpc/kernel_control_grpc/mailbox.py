"""A bounded queue for a reader that may be slow: the oldest items are dropped, and the reader learns how many.

The head's loop puts things in, the thread of the server takes them out.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

BATCH_ITEMS = 1000
BATCH_BYTES = 1 << 20


class Mailbox:
    """Holds up to `items` things and `bytes` together. `on_first()` is called when it is empty no more."""

    def __init__(self, items: int, bytes: int, on_first: Callable[[], None]) -> None:
        self._items = items
        self._bytes = bytes
        self._on_first = on_first
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Any, int]] = deque()
        self._held = 0
        self._missed = 0

    def put(self, item: Any, size: int) -> None:
        """Add a thing of `size` bytes; drop the oldest ones until all fits."""
        with self._lock:
            first = not self._waiting
            self._waiting.append((item, size))
            self._held += size
            while len(self._waiting) > 1 and (len(self._waiting) > self._items or self._held > self._bytes):
                self._held -= self._waiting.popleft()[1]
                self._missed += 1
        if first:
            self._on_first()

    def take(self) -> tuple[list[Any], int]:
        """Return the oldest things, as many as fit into one response, and how many before them were dropped."""
        taken: list[Any] = []
        size = 0
        with self._lock:
            while self._waiting and len(taken) < BATCH_ITEMS and (not taken or size < BATCH_BYTES):
                item, weight = self._waiting.popleft()
                taken.append(item)
                size += weight
            self._held -= size
            missed, self._missed = self._missed, 0
        return taken, missed
