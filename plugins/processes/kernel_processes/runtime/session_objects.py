"""Wait for objects that other processes of the session make."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kernel.runtime.object_entry import FAILED, INLINE, LOST, PENDING, STORED, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.waiter import Waiter
from kernel_engine.objects.object_operations import ObjectOperations, failure_to_raise
from kernel_engine.objects.ownership import Ownership
from kernel_engine.objects.value_placement import Stored
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.tasks import TaskTable
from kernel_processes.runtime.inspection import Inspection
from kernel_processes.runtime.lineage import Lineage
from kernel_processes.runtime.process import Process
from kernel_processes.runtime.store_access import StoreAccess
from kernel_spec.errors import ObjectLostError, SessionEndedError

PATIENCE_SECONDS = 5.0
"""Seconds without progress after which a `get` reports what is missing; the intervals between later warnings grow."""

_HASTE_SECONDS = 0.2
"""Seconds for other processes to report what is missing, once the time of a `get` is up."""


class SessionObjects(ObjectOperations):
    """Waits for the objects of a process of a session.

    A worker sets `before_block` and `after_block`: they lend its CPU to others while a call waits in here for some
    entries. `before_block` returns whether it did; `after_block` waits until the CPU is free, or a deadline has passed.
    """

    def __init__(
        self,
        io: Process,
        ownership: Ownership,
        store: StoreAccess,
        tasks: TaskTable,
        inspection: Inspection,
        serializer: ValueSerializer,
        lineage: Lineage,
    ) -> None:
        super().__init__(io, ownership, store, tasks, serializer)
        self._inspection = inspection
        self._lineage = lineage
        self.before_block: Callable[[Waiter, list[ObjectEntry]], bool] = lambda waiter, pending: False
        self.after_block: Callable[[float | None], None] = lambda deadline: None

    def _wait_ready(
        self, pending: list[ObjectEntry], count: int, timeout: float | None, until_failure: bool = False
    ) -> bool:
        io = self._io
        waiter = Waiter(count, until_failure)
        with io.lock:
            if io.ended is not None:
                raise SessionEndedError(io.ended)
            self._register(waiter, pending)
            for entry in pending:
                if entry.state == PENDING and entry.details is not None and entry.details.owner is not None:
                    self._ownership.fetch(entry)
        try:
            if waiter.remaining <= 0:
                return True
            return self.block(waiter, pending, None if timeout is None else time.monotonic() + timeout)
        finally:
            if waiter.remaining > 0 or waiter.failed:
                self._forget_waiter(waiter, pending)

    def block(self, waiter: Waiter, pending: list[ObjectEntry], deadline: float | None) -> bool:
        """Block until `waiter` has nothing left or `deadline` (monotonic seconds); return whether it has not.

        Says now and then what `pending` wait for. Raises SessionEndedError.
        """
        io = self._io
        patience = PATIENCE_SECONDS
        gave_back = self.before_block(waiter, pending)
        until: float | None = 0.0  # An interrupted wait does not wait for the CPU.
        self._inspection.waits.begin(pending, waiter)
        try:
            while True:
                look = time.monotonic() + patience
                remaining = waiter.remaining
                done = io.pump.wait(waiter, look if deadline is None or look < deadline else deadline)
                if done or io.ended is not None or (deadline is not None and time.monotonic() >= deadline):
                    break
                if waiter.remaining == remaining:
                    self._inspection.warn_waiting([entry for entry in pending if entry.state == PENDING])
                    patience = min(patience * 2, 300.0)
            until = deadline
        finally:
            self._inspection.waits.end()
            if gave_back:
                self.after_block(until)
        if io.pump.interrupts:
            io.raise_interrupt()
        if waiter.remaining > 0 and io.ended is not None:
            raise SessionEndedError(io.ended)
        return done

    def stored_payload(self, entry: ObjectEntry, deadline: float | None = None) -> tuple[Any, list[memoryview]]:
        """Return head and buffers of a stored value; one that is lost is waited for until it was made again."""
        while True:
            tried, why = entry.value if entry.state == STORED else None, ""
            try:
                if tried is not None:
                    return super().stored_payload(entry, deadline)
            except ObjectLostError as error:
                why = str(error)
            self._seek(entry, tried, why)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if entry.state == PENDING and not self._wait_ready([entry], 1, left):
                self._raise_late([entry], left)
            if entry.state == FAILED:
                self._tasks.failures.asked(entry)
                raise failure_to_raise(*entry.value)
            if entry.state == INLINE:
                value = entry.value
                return (value, []) if type(value) is bytes else (value[0], list(map(memoryview, value[1])))

    def _seek(self, entry: ObjectEntry, tried: Stored | None, why: str) -> None:
        """No place of what was `tried` can give the object: have it made again if it is ours, else ask its owner.

        Another thread may have had that done meanwhile: then the entry has another value, if an equal one.
        """
        with self._io.lock:
            details = entry.details
            still = entry.state == STORED and tried is entry.value
            if details is None or details.owner is None:
                if still:
                    self._lineage.lost_at(entry, entry.value[1], why)
                if entry.state >= LOST:
                    self._lineage.recover(entry)
            elif still:
                places = entry.value[1]
                entry.state, entry.value, details.fetching = PENDING, None, False
                self._ownership.report_lost(entry.id, places, why, details.owner, details.address)
                self._ownership.fetch(entry)
            self._io.finish_batch()

    def explain(self, entry: ObjectEntry) -> str:
        """Return what an object waits for, for the error of a `get` that has run out of time."""
        return self._inspection.explain_entry(entry, _HASTE_SECONDS)

    def _look(self, refs: Sequence[ObjectRef]) -> None:
        with self._io.lock:
            for ref in refs:
                if ref._entry.owner is not None:
                    self._ownership.fetch(ref._entry)
        self._io.flush()
        self._io.pump.poll_now()
