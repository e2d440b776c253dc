"""Objects: values as bytes, so that nobody can change what another one has, and what waits for them."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kernel.runtime.object_entry import FAILED, INLINE, PENDING, ObjectEntry, dropped
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.waiter import Waiter
from kernel_engine.failures.failures import Failure, lost
from kernel_engine.objects.futures import Futures
from kernel_engine.objects.object_operations import failure_to_raise
from kernel_engine.objects.value_placement import inline
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_spec.errors import ArgumentError, GetTimeoutError
from kernel_spec.ids import JobId, NodeId, ObjectId, ProcessId, TaskId, object_id


class OneProcessObjects:
    """The objects of the program, and `kernel.runtime.interface.ObjectRuntime`.

    An object lives as long as its one `ObjectRef` does, or a value that holds it: Python counts, the engine does not.
    `blocked()` is entered by a thread while it waits.
    """

    def __init__(self, blocked: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self.process = ProcessId(os.urandom(8))
        self.job = JobId(self.process)
        self.node = NodeId(os.urandom(8))
        self.serializer = ValueSerializer()
        self.changed = threading.Condition(threading.RLock())
        """The one lock of the engine. It is told of every object that becomes ready, and of every item of a stream."""
        self._blocked = blocked
        self._numbers = itertools.count(1)
        self._refs: weakref.WeakValueDictionary[bytes, ObjectRef] = weakref.WeakValueDictionary()
        self._forever: list[ObjectRef] = []
        futures = Futures(self.when_ready, self.load, lambda entry: None)
        self.deliver, self.deliver_async = futures.deliver, futures.deliver_async

    def next_id(self) -> TaskId:
        """Return the id of a new task, or actor, or of what is put."""
        dropped.clear()  # here nobody counts references: Python does
        return TaskId(self.process + next(self._numbers).to_bytes(8, "little"))

    def make(self, task: TaskId, index: int = 0) -> ObjectRef:
        """Return the reference to a new object, whose value is to come."""
        ref = ObjectRef(ObjectEntry(object_id(task, index), 1))
        self._refs[ref.binary()] = ref
        return ref

    def fill(self, ref: ObjectRef, value: Any) -> None:
        """Give an object its value. Raises SerializationError."""
        head, buffers, held = self.serializer.dumps(value)
        self.resolve(ref, INLINE, inline(head, buffers), held)

    def resolve(self, ref: ObjectRef, state: int, value: Any, held: Any = ()) -> None:
        """Make an object ready, if it is not: what comes after a failure, such as that it was cancelled, is dropped."""
        with self.changed:
            if ref._entry.state == PENDING:
                ref._entry.more().contained = list(held)  # whoever has the value has these references
                ref._entry.resolve(state, value)
                self.changed.notify_all()

    def fail(self, ref: ObjectRef, failure: Failure) -> None:
        """Have `get` of an object raise."""
        self.resolve(ref, FAILED, failure)

    def put(self, value: Any, weak: bool = False) -> ObjectRef:
        """See `Runtime.put`."""
        if type(value) is ObjectRef:
            raise ArgumentError("put(ObjectRef) would store a reference to a reference; pass the reference itself")
        ref = self.make(self.next_id())
        self.fill(ref, value)
        return ref

    def get(self, refs: Sequence[ObjectRef], timeout: float | None) -> list[Any]:
        """See `Runtime.get`."""
        entries = [ref._entry for ref in refs]
        if not self.wait_for(entries, len(entries), timeout, until_failure=True):
            missing = next(ref for ref in refs if not ref.is_ready())
            raise GetTimeoutError(f"get() had no result within {timeout} s: the task of {missing!r} has not ended")
        failed = [entry for entry in entries if entry.state == FAILED]
        return [self.load(entry) for entry in failed or entries]

    def get_one(self, ref: ObjectRef, timeout: float | None) -> Any:
        """See `Runtime.get_one`."""
        return self.get([ref], timeout)[0]

    def load(self, entry: ObjectEntry) -> Any:
        """Return a value that is there, as a copy, or raise the failure."""
        if entry.state == FAILED:
            raise failure_to_raise(*entry.value)
        return self.serializer.loads(*(entry.value if type(entry.value) is tuple else (entry.value,)))

    def wait(
        self, refs: Sequence[ObjectRef], num_returns: int, timeout: float | None, fetch_local: bool
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """See `Runtime.wait`."""
        self.wait_for([ref._entry for ref in refs], num_returns, timeout)
        ready = [ref for ref in refs if ref._entry.state != PENDING][:num_returns]
        return ready, [ref for ref in refs if ref not in ready]

    def wait_for(
        self, entries: Sequence[ObjectEntry], count: int, timeout: float | None, until_failure: bool = False
    ) -> bool:
        """Block until `count` objects are ready, or one has failed; return whether that is so."""
        waiter = Waiter(count, until_failure)
        with self.changed:
            for entry in entries:
                if entry.state == PENDING:
                    entry.when_ready(waiter)
                elif entry.state == FAILED:
                    waiter.fail()
                else:
                    waiter.complete()
            return self.wait_until(lambda: waiter.remaining <= 0, timeout)

    def wait_until(self, condition: Callable[[], Any], timeout: float | None) -> bool:
        """Block until a condition holds, which something that notifies `changed` brings about; return whether it does.

        Meanwhile another task may run on the CPU of this one.
        """
        with self.changed:
            if condition():
                return True
            with self._blocked():
                return bool(self.changed.wait_for(condition, timeout))

    def when_ready(self, entry: ObjectEntry, callback: Callable[[ObjectEntry], None]) -> None:
        """Call back once, now or from the thread that makes the object ready."""
        with self.changed:
            if entry.state == PENDING:
                entry.when_ready(callback)
                return
        callback(entry)

    # -- references that travel: in the bytes of a value they are ids -------------------------------------------------

    def adopt(self, id: ObjectId, owner: ProcessId, address: str) -> ObjectRef:
        """See `Runtime.adopt`: there is one reference to an object, and this is it."""
        ref = self._refs.get(id)
        if ref is None:
            ref = ObjectRef(ObjectEntry(id, 1))
            self.fail(ref, lost(id, "all references to it are gone"))
        return ref

    def owner_of(self, ref: ObjectRef) -> tuple[ProcessId, str]:
        """See `Runtime.owner_of`."""
        return self.process, ""

    def pin_forever(self, ref: ObjectRef) -> None:
        """See `Runtime.pin_forever`."""
        self._forever.append(ref)
