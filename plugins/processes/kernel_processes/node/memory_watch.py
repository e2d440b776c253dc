"""Sample the memory of a node a few times a second, in the agent's loop, and end workers that the guard chooses."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages import process_messages as op
from kernel_processes.node import worker_pool as pool
from kernel_processes.node.memory_readings import MemoryReadings
from kernel_processes.node.worker_control import WorkerControl
from kernel_processes.node.worker_pool import WorkerPool, WorkerRecord
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.protocol.memory_faults import FAULTS
from kernel_processes.system.processes import kill
from kernel_processes.transport.reactor import Reactor
from kernel_spec.byte_sizes import readable
from kernel_spec.memory_guards import (
    ACTOR,
    ENDING,
    IDLE,
    TASK,
    EndForMemory,
    MemoryGuard,
    MemoryLimit,
    RetireWorker,
    WorkerMemory,
)

KEPT_ENDS = 20
"""The number of workers ended for memory that `kernel status` shows."""
_NEWS_SECONDS = 5.0
"""Seconds for which a kill by the system is remembered until the death of a worker is known, which it explains."""
_KINDS = {pool.IDLE: IDLE, pool.LEASED: TASK, pool.ACTOR: ACTOR, pool.ENDING: ENDING}
_NUMBERS = {word: number for number, word in FAULTS.items()}
_OWN = "this node's memory_limit"


class MemoryWatch:
    """The shell around the memory guard, for the workers of one agent.

    `template_pid()` is the process that workers are forked from, 0 without one; `store_used()` the bytes that the
    object store holds: with the agent and the workers they count against a limit that the user has set.
    """

    def __init__(
        self,
        config: AgentConfig,
        guard: MemoryGuard,
        pool: WorkerPool,
        control: WorkerControl,
        reactor: Reactor,
        template_pid: Callable[[], int],
        store_used: Callable[[], int],
        readings: MemoryReadings | None = None,
    ) -> None:
        self._name = config.node.hex()[:8]
        self._pool = pool
        self._control = control
        self._reactor = reactor
        self._template_pid = template_pid
        self._store_used = store_used
        self._log = Logger("kernel.node")
        self._readings = readings or MemoryReadings()
        self._guard = guard
        self._threshold, self._quotas = config.memory_threshold, config.memory_quotas
        self._limit = config.memory_limit
        self._limits: list[MemoryLimit] = []
        self._ends: deque[dict[str, Any]] = deque(maxlen=KEPT_ENDS)
        self._ended = 0
        self._kills = self._explained = self._readings.kills()
        self._killed_at = 0.0

    def start(self) -> None:
        """Start sampling."""
        try:
            self._look()
        finally:
            self._reactor.call_later(self._guard.wait(self._limits), self.start)

    def status(self) -> dict[str, Any]:
        """Return the data for `kernel status`: limits, and the workers that were ended lately."""
        limits = [*self._readings.limits(), *self._own_limit(self._sizes(bool(self._limit)))]
        return {
            "limits": [(limit.name, limit.used, limit.total) for limit in limits],
            "guard": self._guard.name,
            "threshold": self._threshold,
            "quotas": self._quotas,
            "pressure": self._readings.pressure(),
            "ended": self._ended,
            "ends": list(self._ends),
        }

    def sizes(self, pids: list[int]) -> dict[int, int]:
        """Return the bytes that processes hold and do not share, by pid."""
        return self._readings.sizes(pids)

    def note_kill(self, worker: WorkerRecord) -> str:
        """Return the explanation if the system has just killed a worker for memory, and record it as the cause."""
        self._count_kills()
        if self._kills == self._explained:
            return ""
        self._explained += 1
        used = "".join(
            f"; {readable(limit.used)} of {readable(limit.total)} ({limit.name}) were in use"
            for limit in sorted(self._limits, key=lambda limit: -limit.share)[:1]
        )
        text = (
            f"the machine itself killed it (SIGKILL) because memory ran out faster than this node noticed{used} at the "
            f"last look (pid {worker.pid}, node {self._name})"
        )
        self._remember(worker, op.OUT_OF_MEMORY, text)
        return text

    # -- inside ----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._count_kills()
        now = self._reactor.clock()
        limits = self._readings.limits()
        sizes = self._sizes(bool(self._limit) or self._guard.needs_sizes(limits))
        self._limits = [*limits, *self._own_limit(sizes)]
        workers = [self._use(worker, sizes) for worker in self._workers()]
        for step in self._guard.sample(now, self._limits, workers):
            worker = self._pool.workers[step.worker]
            if isinstance(step, RetireWorker):
                worker.retiring = True
                self._control.ask_to_retire(worker)
            else:
                self._end(worker, step)

    def _end(self, worker: WorkerRecord, step: EndForMemory) -> None:
        self._log.warning("a worker is ended for memory", pid=worker.pid, reason=step.cause)
        self._pool.ends(worker.id, step.cause)
        self._remember(worker, _NUMBERS[step.fault], step.cause)
        kill(worker.pid)

    def _remember(self, worker: WorkerRecord, fault: int, cause: str) -> None:
        worker.fault = fault
        self._ended += 1
        self._ends.append(
            {"pid": worker.pid, "name": _name_of(worker), "time": time.time(), "fault": FAULTS[fault], "cause": cause}
        )

    def _workers(self) -> list[WorkerRecord]:
        return [worker for worker in self._pool.workers.values() if worker.pid and worker.state in _KINDS]

    def _sizes(self, all: bool) -> dict[int, int]:
        """Return the sizes of all workers, or only of those whose quota is a limit."""
        workers = self._workers()
        if not all:
            workers = [w for w in workers if self._guard.is_bound(_KINDS[w.state]) and w.work.memory]
        return self._readings.sizes(worker.pid for worker in workers) if workers else {}

    def _own_limit(self, sizes: dict[int, int]) -> list[MemoryLimit]:
        """Return the used part of the limit that the user has set, if any; `sizes` are those of all workers."""
        if not self._limit:
            return []
        template = self._template_pid()
        used = sum(sizes.values()) + self._readings.size(os.getpid()) + self._store_used()
        used += self._readings.size(template) if template else 0
        return [MemoryLimit(_OWN, used, self._limit)]

    def _use(self, worker: WorkerRecord, sizes: dict[int, int]) -> WorkerMemory:
        return WorkerMemory(
            worker.id,
            worker.pid,
            _name_of(worker),
            _KINDS[worker.state],
            sizes.get(worker.pid, 0),
            again=worker.restarts != 0 if worker.state == pool.ACTOR else worker.work.repeatable,
            owner=worker.work.owner,
            since=worker.leased_at,
            reserved=worker.work.memory,
        )

    def _count_kills(self) -> None:
        now = self._reactor.clock()
        kills = self._readings.kills()
        if kills != self._kills:
            self._kills, self._killed_at = kills, now
        elif now - self._killed_at > _NEWS_SECONDS:
            self._explained = kills  # it was not a worker


def _name_of(worker: WorkerRecord) -> str:
    """Return a worker's name for messages: its actor's class, or the task for which it was leased first."""
    return worker.actor or (f"worker leased for {worker.work.name}()" if worker.work.name else "")
