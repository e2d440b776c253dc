"""Values in local mode: storing, waiting and reading. Every `get` unpickles anew, as it would elsewhere."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kernel.local.loopback import LocalOwnership, LocalStore, Loopback
from kernel.runtime.layout import unpack
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.object_values import failure_to_raise
from kernel.runtime.objects import INLINE, PENDING, STORED, Entry
from kernel.runtime.serialization import ValueSerializer
from kernel.runtime.tasks import INLINE_BYTES, TaskTable
from kernel.runtime.waiting import Waiter
from kernel_spec.errors import GetTimeoutError, InfeasibleError, UsageError
from kernel_spec.ids import object_id


class LocalObjects:
    """The objects of this process.

    `go_on(entries, deadline)` gives what waits for a consumer its chance; `why_never(entry)` names what makes a wait
    hopeless; `block(entries)` is told of a wait and returns what to call after it.
    """

    def __init__(
        self,
        loopback: Loopback,
        ownership: LocalOwnership,
        store: LocalStore,
        tasks: TaskTable,
        serializer: ValueSerializer,
    ) -> None:
        self._loopback = loopback
        self._ownership = ownership
        self._store = store
        self._tasks = tasks
        self._serializer = serializer
        self.go_on: Callable[[list[Entry], float | None], None] = lambda entries, deadline: None
        self.why_never: Callable[[Entry], str] = lambda entry: ""
        self.explain: Callable[[Entry], str] = lambda entry: ""
        self.block: Callable[[list[Entry]], Callable[[], None]] = lambda entries: lambda: None

    def put(self, value: Any) -> ObjectRef:
        """Store a value."""
        if type(value) is ObjectRef:
            raise UsageError(
                "put(ObjectRef) would store a reference to a reference; pass the reference itself, "
                "or put it into a list if that is what you want"
            )
        head, buffers, refs = self._serializer.dumps(value)
        entry = Entry(object_id(self._tasks.next_id(), 0), 1)
        size = len(head) + sum(memoryview(buffer).nbytes for buffer in buffers)
        if size > INLINE_BYTES:
            entry.resolve(STORED, self._store.write(entry.id, head, buffers, self._loopback.id))
        else:
            entry.resolve(INLINE, (head, [bytes(buffer) for buffer in buffers]) if buffers else head)
        frame = sys._getframe(3)
        entry.more().site = (frame.f_code, frame.f_lineno)
        ref = ObjectRef(entry)
        with self._loopback.lock:
            if refs:
                self._ownership.contain(entry, refs)
            self._ownership.objects[entry.id] = entry
        return ref

    def get(self, refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
        """Return the values in order, or raise the first failure."""
        entries = [ref._entry for ref in refs]
        pending = [entry for entry in entries if entry.state == PENDING]
        if pending and not self.await_ready(pending, len(pending), timeout):
            missing = [entry for entry in pending if entry.state == PENDING]
            if missing:
                with self._loopback.lock:
                    why = self.why_never(missing[0]) or self.explain(missing[0])
                raise GetTimeoutError(f"get() had no result within {timeout} s: {why}")
        return [self.load(entry) for entry in entries]

    def load(self, entry: Entry) -> Any:
        """Return the value of a ready entry, or raise its failure."""
        if entry.state == INLINE:
            if type(entry.value) is bytes:
                return self._serializer.loads(entry.value)
            return self._serializer.loads(*entry.value)
        if entry.state == STORED:
            return self._serializer.loads(*unpack(self._store.view(entry.id)))
        raise failure_to_raise(*entry.value)

    def wait(
        self, refs: Sequence[ObjectRef], num_returns: int, timeout: float | None
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """Return (ready, others), both in the order given."""
        pending = [ref._entry for ref in refs if ref._entry.state == PENDING]
        missing = num_returns - (len(refs) - len(pending))
        if missing > 0 and timeout != 0:
            self.await_ready(pending, missing, timeout)
        done: list[ObjectRef] = []
        others: list[ObjectRef] = []
        for ref in refs:
            target = done if len(done) < num_returns and ref._entry.state != PENDING else others
            target.append(ref)
        return done, others

    def await_ready(self, pending: list[Entry], count: int, timeout: float | None) -> bool:
        """Block until `count` of `pending` are ready; return whether they are. Raises InfeasibleError: never."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self.go_on(pending, deadline)
        waiter = Waiter(count)
        with self._loopback.lock:
            for entry in pending:
                if entry.state != PENDING:
                    waiter.remaining -= 1
                else:
                    entry.when_ready(waiter)
            if waiter.remaining <= 0:
                return True
            if deadline is None:
                self._check_hope(pending, waiter)
        leave = self.block(pending)
        try:
            return self._loopback.pump.wait(waiter, deadline)
        finally:
            leave()
            if waiter.remaining > 0:
                self._forget(waiter, pending)

    def _check_hope(self, pending: list[Entry], waiter: Waiter) -> None:
        reasons = [why for entry in pending if entry.state == PENDING and (why := self.why_never(entry))]
        if len(reasons) > sum(1 for entry in pending if entry.state == PENDING) - waiter.remaining:
            self._forget(waiter, pending)
            raise InfeasibleError(f"this would wait for ever: {reasons[0]}")

    def _forget(self, waiter: Waiter, pending: list[Entry]) -> None:
        with self._loopback.lock:
            for entry in pending:
                if entry.waiters is not None and waiter in entry.waiters:
                    entry.waiters.remove(waiter)

    # -- futures ---------------------------------------------------------------------------------------------------

    def when_ready(self, entry: Entry, callback: Callable[[Entry], None]) -> None:
        """Call `callback` once when `entry` is ready, now or from the thread that makes it so."""
        self.go_on([entry], None)
        with self._loopback.lock:
            if entry.state == PENDING:
                entry.when_ready(callback)
                return
        callback(entry)

    def deliver(self, ref: ObjectRef, future: concurrent.futures.Future[Any]) -> None:
        """Set the value of `ref`, or its failure, on `future` when it is there."""

        def fill(entry: Entry) -> None:
            try:
                value = self.load(ref._entry)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        self.when_ready(ref._entry, fill)

    def deliver_async(self, ref: ObjectRef, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """Return a future of `loop` for the value of `ref`."""
        future: asyncio.Future[Any] = loop.create_future()
        thread = threading.get_ident()

        def fill() -> None:
            if future.done():
                return
            try:
                value = self.load(ref._entry)
            except BaseException as error:
                future.set_exception(error if not isinstance(error, StopIteration) else RuntimeError(repr(error)))
            else:
                future.set_result(value)

        def ready(entry: Entry) -> None:
            if threading.get_ident() == thread:
                loop.call_soon(fill)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(fill)

        self.when_ready(ref._entry, ready)
        return future
