"""Objects in local mode: waiting for values that this process makes, if it ever can."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.waiter import Waiter
from kernel_engine.objects.object_operations import ObjectOperations
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.tasks import TaskTable
from kernel_local_mode.blocking import BlockedThreads
from kernel_local_mode.deadlock import DeadlockDetector
from kernel_local_mode.explanation import Explanations
from kernel_local_mode.in_process_transport import InProcessTransport, LocalOwnership, LocalStore
from kernel_spec.errors import InfeasibleError


class LocalObjects(ObjectOperations):
    """The objects of this process.

    `deadlock` knows which waits are hopeless, `explanations` what the others are for.
    """

    def __init__(
        self,
        transport: InProcessTransport,
        ownership: LocalOwnership,
        store: LocalStore,
        tasks: TaskTable,
        serializer: ValueSerializer,
        blocked_threads: BlockedThreads,
        deadlock: DeadlockDetector,
        explanations: Explanations,
    ) -> None:
        super().__init__(transport, ownership, store, tasks, serializer)  # type: ignore[arg-type]
        self._blocked_threads = blocked_threads
        self._deadlock = deadlock
        self._explanations = explanations

    def when_ready(self, entry: ObjectEntry, callback: Callable[[ObjectEntry], None]) -> None:
        """Call `callback` once when `entry` is ready, now or from the thread that makes it so."""
        self._blocked_threads.go_on([entry], None)
        super().when_ready(entry, callback)

    def _wait_ready(
        self, pending: list[ObjectEntry], count: int, timeout: float | None, until_failure: bool = False
    ) -> bool:
        """Block as the base class says. Raises InfeasibleError where that would be for ever."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._blocked_threads.go_on(pending, deadline)
        waiter = Waiter(count, until_failure)
        with self._io.lock:
            self._register(waiter, pending)
            if deadline is None and waiter.remaining > 0:
                self._check_hope(pending, waiter)
        try:
            return waiter.remaining <= 0 or self.block(waiter, pending, deadline)
        finally:
            if waiter.remaining > 0 or waiter.failed:
                self._forget_waiter(waiter, pending)

    def block(self, waiter: Waiter, pending: list[ObjectEntry], deadline: float | None) -> bool:
        """Block until `waiter` has nothing left or `deadline` (monotonic seconds); return whether it has not."""
        leave = self._blocked_threads.block(pending)
        try:
            return self._io.pump.wait(waiter, deadline)
        finally:
            leave()

    def _look(self, refs: Sequence[ObjectRef]) -> None:
        """Everything is known here already."""

    def explain(self, entry: ObjectEntry) -> str:
        """Say what an object waits for."""
        with self._io.lock:
            return self._deadlock.why_never(entry) or self._explanations.of(entry)

    def _check_hope(self, pending: list[ObjectEntry], waiter: Waiter) -> None:
        reasons = [why for entry in pending if entry.state == PENDING and (why := self._deadlock.why_never(entry))]
        if len(reasons) > sum(1 for entry in pending if entry.state == PENDING) - waiter.remaining:
            self._forget_waiter(waiter, pending)
            raise InfeasibleError(f"this would wait for ever: {reasons[0]}")
