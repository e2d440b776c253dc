"""Put objects, get their values, and wait for some of several: the operations that all runtimes share."""

from __future__ import annotations

import pickle
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernel.runtime.object_entry import FAILED, INLINE, PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.waiter import Waiter
from kernel_engine.failures.task_error import rebuild
from kernel_engine.messages import process_messages as op
from kernel_engine.objects.ownership import Ownership
from kernel_engine.objects.value_placement import inline_or_stored
from kernel_engine.serialization.layout import unpack
from kernel_engine.serialization.unpickling_notes import naming
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.tasks import TaskTable
from kernel_spec.errors import ArgumentError, GetTimeoutError
from kernel_spec.ids import object_id

if TYPE_CHECKING:
    from kernel_engine.surroundings import EngineProcess, EngineStore


class ObjectOperations(ABC):
    """Offers operations on objects, to any thread. Each runtime defines how it blocks, and how it explains a wait."""

    def __init__(
        self, io: EngineProcess, ownership: Ownership, store: EngineStore, tasks: TaskTable, serializer: ValueSerializer
    ) -> None:
        self._io = io
        self._ownership = ownership
        self._store = store
        self._tasks = tasks
        self.serializer = serializer

    # -- what each runtime has of its own --------------------------------------------------------------------------

    @abstractmethod
    def _wait_ready(
        self, pending: list[ObjectEntry], count: int, timeout: float | None, until_failure: bool = False
    ) -> bool:
        """Block until `count` of `pending` are ready, or (`until_failure`) one has failed; return whether that is."""

    @abstractmethod
    def _look(self, refs: Sequence[ObjectRef]) -> None:
        """Learn what can be learned about `refs` without waiting."""

    @abstractmethod
    def explain(self, entry: ObjectEntry) -> str:
        """Say what an object waits for, now that there is no more time."""

    # -- the verbs -------------------------------------------------------------------------------------------------

    def put(self, value: Any, weak: bool = False, depth: int = 2) -> ObjectRef:
        """See `Runtime.put`. `depth` is how many calls below the user's line this is."""
        if type(value) is ObjectRef:
            raise ArgumentError(
                "put(ObjectRef) would store a reference to a reference; pass the reference itself, "
                "or put it into a list if that is what you want"
            )
        head, buffers, refs = self.serializer.dumps(value)
        id = object_id(self._tasks.next_id(), 0)
        entry = ObjectEntry(id, 1)
        entry.state, entry.value = inline_or_stored(self._store.write, id, head, buffers, self._io.id, weak)
        ref = ObjectRef(entry)
        if refs:
            with self._io.lock:
                self._ownership.contain(entry, refs)
        self._ownership.objects[id] = entry
        frame = sys._getframe(depth)
        if "__tracebackhide__" in frame.f_globals and frame.f_back is not None:
            frame = frame.f_back  # A library hides the lines of its own put: its caller is the user.
        entry.more().site = (frame.f_code, frame.f_lineno)
        return ref

    def get(self, refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
        """See `Runtime.get`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pending = [ref._entry for ref in refs if ref._entry.state == PENDING]
        if pending:
            self._wait_for_all(refs, pending, timeout)
        loads = self.serializer.loads
        values = []
        try:
            for ref in refs:
                entry = ref._entry
                if entry.state == INLINE and type(entry.value) is bytes:
                    try:
                        values.append(loads(entry.value))
                    except Exception as error:
                        raise _naming(entry, error)  # noqa: B904  (the same error)
                else:
                    values.append(self.load(entry, deadline))
        except BaseException:
            self._tasks.failures.asked_together([ref._entry for ref in refs])
            raise
        return values

    def _wait_for_all(self, refs: Sequence[ObjectRef], pending: list[ObjectEntry], timeout: float | None) -> None:
        """Wait for the `pending` ones of `refs`. Raises the first failure as soon as there is one."""
        if not any(ref._entry.state == FAILED for ref in refs) and not self._wait_ready(
            pending, len(pending), timeout, until_failure=True
        ):
            self._raise_late(pending, timeout)
        if any(entry.state == PENDING for entry in pending):
            failed = next((ref._entry for ref in refs if ref._entry.state == FAILED), None)
            if failed is not None:
                self._tasks.failures.asked_together([ref._entry for ref in refs])
                self.load(failed)

    def get_one(self, ref: ObjectRef, timeout: float | None) -> Any:
        """See `Runtime.get_one`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        entry = ref._entry
        if entry.state == PENDING and not self._wait_ready([entry], 1, timeout):
            self._raise_late([entry], timeout)
        return self.load(entry, deadline)

    def load(self, entry: ObjectEntry, deadline: float | None = None) -> Any:
        """Return the value of a ready entry, or raise its failure. `deadline` is in monotonic seconds."""
        if entry.state == FAILED:
            self._tasks.failures.asked(entry)
            raise failure_to_raise(*entry.value)
        payload = entry.value if entry.state == INLINE else self.stored_payload(entry, deadline)
        try:
            return self.serializer.loads(payload) if type(payload) is bytes else self.serializer.loads(*payload)
        except Exception as error:
            raise _naming(entry, error)  # noqa: B904  (the same error)

    def stored_payload(self, entry: ObjectEntry, deadline: float | None = None) -> tuple[Any, list[memoryview]]:
        """Return head and buffers of a value in the store, pinned while anybody looks at it."""
        details = entry.more()
        view = details.view
        if view is None:
            owner = (details.owner or self._io.id, details.address or self._io.address)
            view = self._store.view(entry.id, entry.value, owner, deadline)
            details.view = view
        return unpack(view)

    def wait(
        self, refs: Sequence[ObjectRef], num_returns: int, timeout: float | None, fetch_local: bool
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """See `Runtime.wait`."""
        pending = [ref._entry for ref in refs if ref._entry.state == PENDING]
        missing = num_returns - (len(refs) - len(pending))
        if missing > 0:
            if timeout == 0:
                self._look(refs)
            else:
                self._wait_ready(pending, missing, timeout)
        done: list[ObjectRef] = []
        others: list[ObjectRef] = []
        for ref in refs:
            if len(done) < num_returns and ref._entry.state != PENDING:
                done.append(ref)
            else:
                others.append(ref)
        return done, others

    def when_ready(self, entry: ObjectEntry, callback: Callable[[ObjectEntry], None]) -> None:
        """Call `callback` once when `entry` is ready, now or from the thread that learns of it."""
        with self._io.lock:
            if entry.state == PENDING:
                entry.when_ready(callback)
                if entry.owner is not None:
                    self._ownership.fetch(entry)
                self._io.flush_soon()
                return
        callback(entry)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _register(self, waiter: Waiter, pending: list[ObjectEntry]) -> None:
        """Notify `waiter` of each of `pending`, also of those that are ready by now. Under the lock."""
        for entry in pending:
            if entry.state == PENDING:
                entry.when_ready(waiter)
            elif entry.state == FAILED:
                waiter.fail()
            else:
                waiter.remaining -= 1

    def _forget_waiter(self, waiter: Waiter, pending: list[ObjectEntry]) -> None:
        with self._io.lock:
            for entry in pending:
                if entry.waiters is not None and waiter in entry.waiters:
                    entry.waiters.remove(waiter)
            waiter.remaining = 0  # The wait has ended.

    def _raise_late(self, pending: list[ObjectEntry], timeout: float | None) -> None:
        missing = [entry for entry in pending if entry.state == PENDING]
        if missing:
            raise GetTimeoutError(f"get() had no result within {timeout} s: {self.explain(missing[0])}")


def _naming(entry: ObjectEntry, error: Exception) -> Exception:
    """Return what the unpickling of an object raised, with a note that says which object it is and where it is from."""
    site = getattr(entry, "site", None) or (entry.details.site if entry.details is not None else None)
    made = f", made in {site[0].co_filename}, line {site[1]}" if site is not None else ""
    return naming(error, f"object {entry.id.hex()}{made}")


def failure_to_raise(kind: int, data: bytes) -> BaseException:
    """Return the exception of a failed object, fresh for each call."""
    if kind == op.USER_ERROR:
        return rebuild(data)
    error: BaseException = pickle.loads(data)
    return error
