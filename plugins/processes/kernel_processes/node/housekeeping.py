"""Do an agent's periodic work: collect the calls of workers, retire idle workers, return memory to the system."""

from __future__ import annotations

from kernel_engine.objects.shrinking import give_memory_back
from kernel_processes.node.node_events import NodeEvents
from kernel_processes.node.node_state import NodeState
from kernel_processes.node.worker_control import WorkerControl
from kernel_processes.node.worker_service import WorkerService
from kernel_processes.transport.reactor import Reactor

TICK_SECONDS = 0.1
MEMORY_SECONDS = 60.0
"""Seconds between returns of freed memory to the system: after large messages an agent would keep it for weeks."""
IDLE_WORKER_SECONDS = 15.0
"""Seconds after which idle workers beyond the number of CPUs retire."""


class Housekeeping:
    """Does the periodic work for a node's workers and the agent's own memory. Runs in the agent's loop."""

    def __init__(
        self, reactor: Reactor, workers: WorkerService, control: WorkerControl, events: NodeEvents, state: NodeState
    ) -> None:
        self._reactor = reactor
        self._workers = workers
        self._control = control
        self._events = events
        self._state = state

    def begin(self) -> None:
        """Start the periodic work."""
        self._reactor.call_later(TICK_SECONDS, self._tick)
        self._reactor.call_later(MEMORY_SECONDS, self._give_memory_back)

    def _tick(self) -> None:
        self._reactor.call_later(TICK_SECONDS, self._tick)  # First, because the rest may raise.
        self._workers.reap()
        self._events.collect()
        if self._state.leaving:
            self._control.retire_idle(0, 0.0)
        else:
            self._control.retire_idle(max(1, int(self._state.total.get("CPU", 1))), IDLE_WORKER_SECONDS)

    def _give_memory_back(self) -> None:
        give_memory_back()
        self._reactor.call_later(MEMORY_SECONDS, self._give_memory_back)
