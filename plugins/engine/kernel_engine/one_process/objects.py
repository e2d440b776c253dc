"""Put, get and wait for objects in one process, by `ObjectOperations`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.waiter import Waiter
from kernel_engine.objects.object_operations import ObjectOperations
from kernel_engine.one_process.transport import InProcessOwnership, InProcessStore, InProcessTransport
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.tasks import TaskTable


class OneProcessObjects(ObjectOperations):
    """Holds the objects of this process. A thread that waits for one blocks until another thread has made it."""

    def __init__(
        self,
        transport: InProcessTransport,
        ownership: InProcessOwnership,
        store: InProcessStore,
        tasks: TaskTable,
        serializer: ValueSerializer,
    ) -> None:
        io: Any = transport
        kept: Any = store
        super().__init__(io, ownership, kept, tasks, serializer)

    def wait_for(self, entries: Sequence[ObjectEntry]) -> None:
        """Block until all of `entries` are ready."""
        pending = [entry for entry in entries if entry.state == PENDING]
        if pending:
            self._wait_ready(pending, len(pending), None)

    def _wait_ready(
        self, pending: list[ObjectEntry], count: int, timeout: float | None, until_failure: bool = False
    ) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        self._before_wait(pending, deadline)
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
        return self._io.pump.wait(waiter, deadline)

    def _before_wait(self, pending: list[ObjectEntry], deadline: float | None) -> None:
        """Do what this thread can do towards what it is about to wait for."""

    def _check_hope(self, pending: list[ObjectEntry], waiter: Waiter) -> None:
        """Raise if a wait without a deadline would never end. Under the lock."""

    def _look(self, refs: Sequence[ObjectRef]) -> None:
        """Everything is known here already."""

    def explain(self, entry: ObjectEntry) -> str:
        """Say what an object waits for."""
        if entry.state != PENDING:
            return "it is there"
        return f"the task {entry.task.name}() has not ended" if entry.task is not None else "it is not made yet"
