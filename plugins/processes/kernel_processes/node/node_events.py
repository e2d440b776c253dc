"""Report the events of a node to the head, while there are observers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kernel_engine.messages.named_messages import packed
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.worker_pool import WorkerPool
from kernel_processes.protocol import head_messages
from kernel_spec.ids import ProcessId

COLLECT_SECONDS = 1.0
"""Seconds between two collections of finished calls from workers."""


class NodeEvents:
    """Reports events while `wanted`, which the head sets, and does nothing otherwise. `clock` is the reactor's."""

    def __init__(self, head: HeadClient, pool: WorkerPool, processes: ProcessTable, clock: Callable[[], float]) -> None:
        self._head = head
        self._pool = pool
        self._processes = processes
        self._clock = clock
        self._collected = 0.0
        self._since = 0.0
        self.wanted = False
        head.on(head_messages.Observe, lambda said: self._want(said.wanted))

    def _want(self, wanted: bool) -> None:
        """Begin or stop reporting events to the head. Earlier events are not reported."""
        if wanted and not self.wanted:
            self._since = time.time()
        self.wanted = wanted

    def note(self, kind: str, state: str, id: bytes, detail: dict[str, Any]) -> None:
        """Report a life cycle event."""
        if self.wanted:
            self._head.send(packed(head_messages.LifeCycleEvents(events=[(kind, state, id, time.time(), detail)])))

    def collect(self) -> None:
        """Ask the workers for their calls, if it is time."""
        now = self._clock()
        if not self.wanted or now - self._collected < COLLECT_SECONDS:
            return
        self._collected = now
        for worker in self._pool.workers.values():
            if worker.peer is not None and not worker.peer.closed:
                self._processes.ask(worker.peer, "new_calls", partial(self._on_calls, worker.id))

    def _on_calls(self, worker: ProcessId, calls: Any) -> None:
        if calls:
            self._head.send(
                packed(
                    head_messages.WorkerCalls(worker=worker, calls=[call for call in calls if call[3] >= self._since])
                )
            )
