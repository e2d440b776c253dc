"""What ran when, in this process: a bounded ring, read only when somebody asks for a timeline."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

KEPT = 20_000
"""How many finished calls and profiled spans a process remembers."""


class Trace:
    """The last calls of this process. Adding one costs a tenth of a microsecond."""

    def __init__(self) -> None:
        self._ring: deque[tuple[Any, ...]] = deque(maxlen=KEPT)
        self.added = 0

    def add(self, name: str, begun: float, ended: float, task: bytes, extra: Any = None) -> None:
        """Note a finished call; times are seconds since the epoch."""
        self.added += 1
        self._ring.append((name, begun, ended, task, threading.get_ident(), extra))

    def calls_since(self, seen: int) -> tuple[int, list[tuple[str, str, float, float]]]:
        """Return how many were added in all, and the calls added after the first `seen`: id, name, begin, end.

        Those that fell out of the ring meanwhile are missing.
        """
        added = self.added
        recent = list(self._ring)[-(added - seen) :] if added > seen else []
        return added, [(task.hex(), name, begun, ended) for name, begun, ended, task, _, _ in recent if task]

    def events(self, most: int = KEPT) -> list[dict[str, Any]]:
        """Return the last calls, at most `most`, as Chrome trace events."""
        pid = os.getpid()
        return [
            {
                "name": name,
                "cat": "task" if task else "profile",
                "ph": "X",
                "ts": begun * 1e6,
                "dur": (ended - begun) * 1e6,
                "pid": pid,
                "tid": thread % 100_000,
                "args": {"task_id": task.hex(), **(extra or {})},
            }
            for name, begun, ended, task, thread, extra in list(self._ring)[-most:]
        ]
