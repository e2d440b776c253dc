"""Remember which workers were ended for memory, and recognise those that the system itself has killed for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_processes.node.guarded_workers import name_of
from kernel_processes.node.worker_pool import WorkerRecord
from kernel_processes.protocol.memory_faults import FAULTS
from kernel_spec.byte_sizes import readable
from kernel_spec.memory_guards import MemoryLimit

KEPT_ENDS = 20
"""The number of workers ended for memory that `kernel status` shows."""
_NEWS_SECONDS = 5.0
"""Seconds for which a kill by the system is remembered, to explain the death of a worker that is reported later."""


class MemoryEnds:
    """Keeps the ends of the workers of `node`, which is its name for messages.

    `kills()` is the number of processes that the system has killed for memory so far, `clock()` the time in seconds.
    """

    def __init__(self, node: str, kills: Callable[[], int], clock: Callable[[], float]) -> None:
        self._node = node
        self._count = kills
        self._clock = clock
        self._kills = self._explained = kills()
        self._killed_at = 0.0
        self._ends: deque[dict[str, Any]] = deque(maxlen=KEPT_ENDS)
        self._ended = 0

    def note(self, worker: WorkerRecord, fault: int, cause: str) -> None:
        """A worker is ended for memory; `fault` is one of `memory_faults.FAULTS`."""
        worker.fault = fault
        self._ended += 1
        self._ends.append(
            {"pid": worker.pid, "name": name_of(worker), "time": time.time(), "fault": FAULTS[fault], "cause": cause}
        )

    def count_kills(self) -> None:
        """See whether the system has killed a process; a kill that soon explains no worker's end was none of ours."""
        now = self._clock()
        kills = self._count()
        if kills != self._kills:
            self._kills, self._killed_at = kills, now
        elif now - self._killed_at > _NEWS_SECONDS:
            self._explained = kills  # The process was not a worker.

    def explain_kill(self, worker: WorkerRecord, limits: Sequence[MemoryLimit]) -> str:
        """Return the explanation if the system has just killed a worker for memory, and record it as the cause.

        `limits` are those of the last look: the fullest one is named.
        """
        self.count_kills()
        if self._kills == self._explained:
            return ""
        self._explained += 1
        used = "".join(
            f"; {readable(limit.used)} of {readable(limit.total)} ({limit.name}) were in use"
            for limit in sorted(limits, key=lambda limit: -limit.share)[:1]
        )
        text = (
            f"the machine itself killed it (SIGKILL) because memory ran out faster than this node noticed{used} at the "
            f"last look (pid {worker.pid}, node {self._node})"
        )
        self.note(worker, op.OUT_OF_MEMORY, text)
        return text

    def status(self) -> dict[str, Any]:
        """Return how many workers ended for memory, and the last ones."""
        return {"ended": self._ended, "ends": list(self._ends)}
