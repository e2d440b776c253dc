"""Wait for objects in local mode, whose values this process makes, if it ever can."""

from __future__ import annotations

from collections.abc import Callable

from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel.runtime.waiter import Waiter
from kernel_engine.one_process.objects import OneProcessObjects
from kernel_engine.one_process.transport import InProcessOwnership, InProcessStore, InProcessTransport
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.tasks import TaskTable
from kernel_local_mode.blocking import BlockedThreads
from kernel_local_mode.deadlock import DeadlockDetector
from kernel_local_mode.explanation import Explanations
from kernel_spec.errors import InfeasibleError


class LocalObjects(OneProcessObjects):
    """Holds the objects of this process.

    `deadlock` knows which waits are hopeless, `explanations` explains the others.
    """

    def __init__(
        self,
        transport: InProcessTransport,
        ownership: InProcessOwnership,
        store: InProcessStore,
        tasks: TaskTable,
        serializer: ValueSerializer,
        blocked_threads: BlockedThreads,
        deadlock: DeadlockDetector,
        explanations: Explanations,
    ) -> None:
        super().__init__(transport, ownership, store, tasks, serializer)
        self._blocked_threads = blocked_threads
        self._deadlock = deadlock
        self._explanations = explanations

    def when_ready(self, entry: ObjectEntry, callback: Callable[[ObjectEntry], None]) -> None:
        """Call `callback` once when `entry` is ready, now or from the thread that makes it so."""
        self._blocked_threads.go_on([entry], None)
        super().when_ready(entry, callback)

    def _before_wait(self, pending: list[ObjectEntry], deadline: float | None) -> None:
        """Go on with what was put aside in the way of `pending`."""
        self._blocked_threads.go_on(pending, deadline)

    def block(self, waiter: Waiter, pending: list[ObjectEntry], deadline: float | None) -> bool:
        """Block as the base class does; others go on meanwhile."""
        leave = self._blocked_threads.block(pending)
        try:
            return super().block(waiter, pending, deadline)
        finally:
            leave()

    def explain(self, entry: ObjectEntry) -> str:
        """Say what an object waits for."""
        with self._io.lock:
            return self._deadlock.why_never(entry) or self._explanations.of(entry)

    def _check_hope(self, pending: list[ObjectEntry], waiter: Waiter) -> None:
        """Raise InfeasibleError for a wait that would be for ever."""
        reasons = [why for entry in pending if entry.state == PENDING and (why := self._deadlock.why_never(entry))]
        if len(reasons) > sum(1 for entry in pending if entry.state == PENDING) - waiter.remaining:
            self._forget_waiter(waiter, pending)
            raise InfeasibleError(f"this would wait for ever: {reasons[0]}")
