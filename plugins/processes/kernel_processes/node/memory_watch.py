"""Sample the memory of a node a few times a second, in the agent's loop, and end workers that the guard chooses."""

from __future__ import annotations

from typing import Any

from kernel.logs import Logger
from kernel_processes.node.guarded_workers import GuardedWorkers
from kernel_processes.node.memory_ends import MemoryEnds
from kernel_processes.node.node_memory import NodeMemory
from kernel_processes.node.worker_pool import WorkerRecord
from kernel_processes.protocol.memory_faults import FAULTS
from kernel_processes.transport.reactor import Reactor
from kernel_spec.memory_guards import EndForMemory, MemoryGuard, MemoryLimit, MemorySettings, RetireWorker

_NUMBERS = {word: number for number, word in FAULTS.items()}


class MemoryWatch:
    """Tells the memory guard, made with `settings`, of `memory` and `workers`, and ends the workers that it chooses."""

    def __init__(
        self,
        settings: MemorySettings,
        guard: MemoryGuard,
        memory: NodeMemory,
        workers: GuardedWorkers,
        reactor: Reactor,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._memory = memory
        self._workers = workers
        self._reactor = reactor
        self._ends = MemoryEnds(settings.node, memory.kills, reactor.clock)
        self._limits: list[MemoryLimit] = []
        self._log = Logger("kernel.node")

    def start(self) -> None:
        """Start sampling."""
        try:
            self._look()
        finally:
            self._reactor.call_later(self._guard.wait(self._limits), self.start)

    def status(self) -> dict[str, Any]:
        """Return the data for `kernel status`: limits, and the workers that were ended lately."""
        limits = self._memory.machine_limits() + self._memory.own_limit(self._sizes(self._memory.has_own_limit))
        return {
            "limits": [(limit.name, limit.used, limit.total) for limit in limits],
            "guard": self._guard.name,
            "threshold": self._settings.threshold,
            "quotas": self._settings.quotas,
            "pressure": self._memory.pressure(),
            **self._ends.status(),
        }

    def sizes(self, pids: list[int]) -> dict[int, int]:
        """Return the bytes that processes hold and do not share, by pid."""
        return self._memory.sizes(pids)

    def note_kill(self, worker: WorkerRecord) -> str:
        """Return the explanation if the system has just killed a worker for memory, and record it as the cause."""
        return self._ends.explain_kill(worker, self._limits)

    def _look(self) -> None:
        self._ends.count_kills()
        limits = self._memory.machine_limits()
        sizes = self._sizes(self._memory.has_own_limit or self._guard.needs_sizes(limits))
        self._limits = limits + self._memory.own_limit(sizes)
        for step in self._guard.sample(self._reactor.clock(), self._limits, self._workers.memories(sizes)):
            if isinstance(step, RetireWorker):
                self._workers.retire(step.worker)
            else:
                self._end(step)

    def _end(self, step: EndForMemory) -> None:
        worker = self._workers.record(step.worker)
        self._log.warning("a worker is ended for memory", pid=worker.pid, reason=step.cause)
        self._ends.note(worker, _NUMBERS[step.fault], step.cause)
        self._workers.end(worker.id, step.cause)

    def _sizes(self, all: bool) -> dict[int, int]:
        """Return the sizes of all workers, or only of those whose quota is a limit."""
        pids = self._workers.pids() if all else self._workers.bound_pids(self._guard)
        return self._memory.sizes(pids) if pids else {}
