"""Measure the memory of a node and of its processes against the limits that the node has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from kernel_processes.node.memory_readings import MemoryReadings
from kernel_spec.memory_guards import MemoryLimit

_OWN = "this node's memory_limit"


class NodeMemory:
    """Measures by `readings`, and applies the limit that the user has set: `own_limit` in bytes, 0 for none.

    The agent, the template, the workers and the object store count against that limit. `template_pid()` is the process
    that workers are forked from, 0 without one; `store_used()` the bytes that the object store holds.
    """

    def __init__(
        self,
        readings: MemoryReadings,
        own_limit: int,
        template_pid: Callable[[], int],
        store_used: Callable[[], int],
    ) -> None:
        self.has_own_limit = bool(own_limit)
        """Whether the sizes of all workers are needed to know the limits."""
        self._readings = readings
        self._own_limit = own_limit
        self._template_pid = template_pid
        self._store_used = store_used

    def machine_limits(self) -> list[MemoryLimit]:
        """Return the limits that the system sets: those of the machine and of the containers around this process."""
        return self._readings.limits()

    def own_limit(self, sizes: Mapping[int, int]) -> list[MemoryLimit]:
        """Return the used part of the limit that the user has set, if any; `sizes` are those of all workers, by pid."""
        if not self._own_limit:
            return []
        template = self._template_pid()
        used = sum(sizes.values()) + self._readings.size(os.getpid()) + self._store_used()
        used += self._readings.size(template) if template else 0
        return [MemoryLimit(_OWN, used, self._own_limit)]

    def sizes(self, pids: Iterable[int]) -> dict[int, int]:
        """Return the bytes that processes hold and do not share, by pid."""
        return self._readings.sizes(pids)

    def pressure(self) -> float:
        """Return the share of the last ten seconds in which all processes stalled for memory, 0 if unknown."""
        return self._readings.pressure()

    def kills(self) -> int:
        """Return the number of processes that the system has killed for memory."""
        return self._readings.kills()
