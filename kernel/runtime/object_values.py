"""Putting values, getting them back, and waiting for them."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any

from kernel.runtime import operations as op
from kernel.runtime.inspection import Inspection
from kernel.runtime.layout import unpack
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.objects import INLINE, PENDING, STORED, Entry
from kernel.runtime.ownership import Ownership
from kernel.runtime.process import Process
from kernel.runtime.serialization import ValueSerializer
from kernel.runtime.store_access import StoreAccess
from kernel.runtime.task_error import rebuild
from kernel.runtime.tasks import INLINE_BYTES, TaskTable
from kernel.runtime.waiting import Waiter
from kernel_spec.errors import GetTimeoutError, SessionEndedError, UsageError
from kernel_spec.ids import object_id

PATIENCE_SECONDS = 5.0
"""How long a `get` waits without progress before it says what is missing; later warnings come ever rarer."""


class ObjectValues:
    """The verbs on objects, for any thread.

    A worker sets `before_block` and `after_block`: they lend its CPU to others while a call waits in here.
    `before_block` says whether it did.
    """

    def __init__(
        self,
        io: Process,
        ownership: Ownership,
        store: StoreAccess,
        tasks: TaskTable,
        inspection: Inspection,
        serializer: ValueSerializer,
        ended: Callable[[], str | None],
    ) -> None:
        self._io = io
        self._ownership = ownership
        self._store = store
        self._tasks = tasks
        self._inspection = inspection
        self._ended = ended
        self.serializer = serializer
        self.before_block: Callable[[], bool] = lambda: False
        self.after_block: Callable[[], None] = lambda: None

    def put(self, value: Any, weak: bool = False) -> ObjectRef:
        """See `Runtime.put`."""
        if type(value) is ObjectRef:
            raise UsageError(
                "put(ObjectRef) would store a reference to a reference; pass the reference itself, "
                "or put it into a list if that is what you want"
            )
        head, buffers, refs = self.serializer.dumps(value)
        id = object_id(self._tasks.next_id(), 0)
        entry = Entry(id, 1)
        size = len(head)
        if buffers:
            size += sum(memoryview(buffer).nbytes for buffer in buffers)
        if size > INLINE_BYTES:
            entry.value = self._store.write(id, head, buffers, self._io.id, weak)
            entry.state = STORED
        else:
            entry.value = (head, [bytes(buffer) for buffer in buffers]) if buffers else head
            entry.state = INLINE
        ref = ObjectRef(entry)
        if refs:
            with self._io.lock:
                self._ownership.contain(entry, refs)
        self._ownership.objects[id] = entry
        self._inspection.note_put(entry, 2)
        return ref

    def get(self, refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
        """See `Runtime.get`."""
        pending = [ref._entry for ref in refs if ref._entry.state == PENDING]
        if pending:
            self._wait_ready(pending, len(pending), timeout, raise_timeout=True)
        loads = self.serializer.loads
        values = []
        for ref in refs:
            entry = ref._entry
            if entry.state == INLINE and type(entry.value) is bytes:
                values.append(loads(entry.value))
            else:
                values.append(self.load(entry))
        return values

    def load(self, entry: Entry) -> Any:
        """Return the value of a ready entry, or raise its failure."""
        if entry.state == INLINE:
            if type(entry.value) is bytes:
                return self.serializer.loads(entry.value)
            return self.serializer.loads(*entry.value)
        if entry.state == STORED:
            return self.serializer.loads(*self.stored_payload(entry))
        raise failure_to_raise(*entry.value)

    def stored_payload(self, entry: Entry) -> tuple[Any, list[memoryview]]:
        """Return head and buffers of a value in the store, pinned while anybody looks at it."""
        details = entry.more()
        view = details.view
        if view is None:
            view = self._store.view(entry.id)
            details.view = view
        return unpack(view)

    def _wait_ready(self, pending: list[Entry], count: int, timeout: float | None, raise_timeout: bool) -> bool:
        """Block until `count` of `pending` are ready; return whether they are."""
        io = self._io
        waiter = Waiter(count)
        with io.lock:
            self._check_alive()
            for entry in pending:
                if entry.state != PENDING:
                    waiter.remaining -= 1
                else:
                    entry.when_ready(waiter)
                    if entry.details is not None and entry.details.owner is not None:
                        self._ownership.fetch(entry)
        if waiter.remaining <= 0:
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        gave_back = self.before_block()
        try:
            done = self._wait_patiently(waiter, pending, deadline)
        finally:
            if gave_back:
                self.after_block()
            if waiter.remaining > 0:
                self._forget_waiter(waiter, pending)
        io.raise_interrupt()
        if waiter.remaining > 0:
            self._check_alive()
        if not done and raise_timeout:
            missing = [entry for entry in pending if entry.state == PENDING]
            why = self._inspection.explain_entry(missing[0]) if missing else ""
            raise GetTimeoutError(f"get() had no result within {timeout} s: {why}")
        return done

    def _wait_patiently(self, waiter: Waiter, pending: list[Entry], deadline: float | None) -> bool:
        patience = PATIENCE_SECONDS
        while True:
            look = time.monotonic() + patience
            until = look if deadline is None or look < deadline else deadline
            remaining = waiter.remaining
            if self._io.pump.wait(waiter, until):
                return True
            if self._ended() is not None or (deadline is not None and time.monotonic() >= deadline):
                return False
            if waiter.remaining == remaining:
                self._inspection.warn_waiting([entry for entry in pending if entry.state == PENDING])
                patience = min(patience * 2, 300.0)

    def _forget_waiter(self, waiter: Waiter, pending: list[Entry]) -> None:
        with self._io.lock:
            for entry in pending:
                if entry.waiters is not None and waiter in entry.waiters:
                    entry.waiters.remove(waiter)

    def wait(
        self, refs: Sequence[ObjectRef], num_returns: int, timeout: float | None, fetch_local: bool
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """See `Runtime.wait`."""
        ready = sum(1 for ref in refs if ref._entry.state != PENDING)
        if ready < num_returns:
            if timeout != 0:
                pending = [ref._entry for ref in refs if ref._entry.state == PENDING]
                missing = num_returns - (len(refs) - len(pending))
                if missing > 0:
                    self._wait_ready(pending, missing, timeout, raise_timeout=False)
            else:
                self._ask_borrowed(refs)
        done: list[ObjectRef] = []
        others: list[ObjectRef] = []
        for ref in refs:
            if len(done) < num_returns and ref._entry.state != PENDING:
                done.append(ref)
            else:
                others.append(ref)
        return done, others

    def _ask_borrowed(self, refs: Sequence[ObjectRef]) -> None:
        with self._io.lock:
            for ref in refs:
                if ref._entry.owner is not None:
                    self._ownership.fetch(ref._entry)
        self._io.flush()
        self._io.pump.poll_now()

    def _check_alive(self) -> None:
        ended = self._ended()
        if ended is not None:
            raise SessionEndedError(ended)


def failure_to_raise(kind: int, data: bytes) -> BaseException:
    """Return the exception of a failed object, fresh for each call."""
    if kind == op.USER_ERROR:
        return rebuild(data)
    error: BaseException = pickle.loads(data)
    return error
