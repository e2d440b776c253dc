"""A task or actor call on its way, and what happens to it when it ends.

`TaskTable` packs arguments, knows every task that was submitted here and is not finished, and turns the worker's
answers into values of the task's objects. Where a task runs is decided by `submission` (leases) and `actor_calls`.
Everything but `prepare` runs under the process's lock.
"""

from __future__ import annotations

import itertools
import pickle
import sys
from collections.abc import Callable
from typing import Any

from kernel.runtime import operations as op
from kernel.runtime.argument_budget import SMALL_BYTES, ArgumentBudget
from kernel.runtime.definitions import CallOptions, FunctionDefinition, parameter_names
from kernel.runtime.execution_context import current_execution
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.objects import FAILED, INLINE, LOST, PENDING, Entry
from kernel.runtime.ownership import Ownership
from kernel.runtime.process import Process
from kernel.runtime.serialization import ValueSerializer
from kernel.runtime.store_access import StoreAccess
from kernel.runtime.streams import DynamicReturns, Stream
from kernel.runtime.task_error import rebuild
from kernel.runtime.unpicklable import explain_call
from kernel.runtime.value_forms import in_message, inline, inline_or_stored
from kernel.transport.connection import Connection, Message
from kernel_spec.errors import FaultError, KernelError, SerializationError, TaskCancelledError
from kernel_spec.ids import ObjectId, TaskId, object_id

WITH_KEYWORDS = 1
WITH_REFERENCES = 2
_ZERO = (0).to_bytes(4, "little")


class Task:
    """One submitted task or actor call."""

    __slots__ = (
        "actor",
        "arguments",
        "attempt",
        "cancelled",
        "definition",
        "entries",
        "estimate",
        "extra",
        "holds",
        "id",
        "ingredients",
        "kept",
        "parent",
        "place",
        "retries",
        "site",
        "slots",
        "stream",
        "waiting",
        "weight",
    )

    def __init__(self, id: TaskId, definition: FunctionDefinition | CallOptions, retries: int) -> None:
        self.id = id
        self.definition = definition
        self.retries = retries
        self.arguments: Any = None
        self.slots: list[tuple[int | str, Entry]] | None = None
        self.holds: list[Entry] | None = None
        self.kept = 0
        self.ingredients: list[tuple[Entry, bool]] | None = None
        self.entries: Entry | list[Entry] = ()  # type: ignore[assignment]
        self.waiting = 0
        self.weight = 0
        self.place: Any = None
        self.actor = ""
        self.estimate = 0.0
        self.cancelled = False
        self.attempt = 0
        self.stream: Stream | None = None
        self.extra: dict[str, Any] | None = None
        self.site: tuple[Any, int] | None = None
        self.parent = current_execution.get().task

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.actor}.{self.definition.name}" if self.actor else self.definition.name

    def all_entries(self) -> list[Entry]:
        """Return the entries of its results."""
        return self.entries if type(self.entries) is list else [self.entries]  # type: ignore[list-item]


class TaskTable:
    """Every unfinished task submitted by this process."""

    def __init__(self, process: Process, ownership: Ownership, store: StoreAccess, serializer: ValueSerializer) -> None:
        self.process = process
        self.ownership = ownership
        self.store = store
        self.serializer = serializer
        self.running: dict[bytes, Task] = {}
        self.on_finished: Callable[[Task], None] = lambda task: None
        self.on_retry: Callable[[Task], None] = lambda task: None
        self.keep_recipe: Callable[[Task], bool] = lambda task: False
        """Asked when a task has ended; after a yes, what it held is held on (`kernel.runtime.lineage`)."""
        self.budget = ArgumentBudget()
        self._prefix = bytes(process.id)
        self._self = (process.id, process.address)
        self._counter = itertools.count(1)
        process.handlers |= {
            op.DONE: self._on_done,
            op.RESULTS: self._on_results,
            op.FAILED: self._on_failed,
            op.STREAM_ITEM: self._on_stream_item,
        }

    def next_id(self) -> TaskId:
        """Return a new task id."""
        return TaskId(self._prefix + next(self._counter).to_bytes(8, "little"))

    # -- before ----------------------------------------------------------------------------------------------------

    def prepare(
        self,
        definition: FunctionDefinition | CallOptions,
        retries: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        actor: str = "",
    ) -> tuple[Task, Any]:
        """Make a task and what `.remote()` returns (any thread, no lock; may block to store large arguments)."""
        task = Task(self.next_id(), definition, retries)
        task.actor = actor
        frame = sys._getframe(3)
        task.site = (frame.f_code, frame.f_lineno)
        if args or kwargs:
            self._pack_arguments(task, args, kwargs)
        returns = definition.returns
        if returns == 1:
            entry = task.entries = Entry(ObjectId(task.id + _ZERO), 1, task)
            return task, ObjectRef(entry)
        if returns == op.STREAMING:
            task.entries = Entry(object_id(task.id, 0), 1, task)
            task.stream = Stream(task.id, ObjectRef(task.entries), definition.backpressure)
            return task, task.stream
        if returns == op.DYNAMIC:
            task.entries = Entry(object_id(task.id, 0), 1, task)
            task.stream = Stream(task.id, None, 0)
            return task, ObjectRef(task.entries)
        entries = task.entries = [Entry(object_id(task.id, index), 1, task) for index in range(returns)]
        return task, ([ObjectRef(entry) for entry in entries] if returns else None)

    def _pack_arguments(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        slots: list[tuple[int | str, Entry]] = []
        for index, value in enumerate(args):
            if type(value) is ObjectRef:
                slots.append((index, value._entry))
        for key, value in kwargs.items():
            if type(value) is ObjectRef:
                slots.append((key, value._entry))
        held: list[Entry] = []
        if slots:
            positions = {key for key, _ in slots}
            plain = tuple(None if i in positions else value for i, value in enumerate(args))
            named = {key: (None if key in positions else value) for key, value in kwargs.items()}
            task.slots = slots
            held = [entry for _, entry in slots]
        else:
            plain, named = args, kwargs
        if len(slots) == len(args) and not kwargs:
            task.arguments = len(args)
        else:
            self._serialize_arguments(task, plain, named, held)
        if held:
            task.holds = held
            with self.process.lock:
                self.ownership.hold(held)

    def _serialize_arguments(
        self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any], held: list[Entry]
    ) -> None:
        value: Any = (args, kwargs) if kwargs else args

        def describe(error: Exception) -> SerializationError:
            names = parameter_names(task.definition)
            return explain_call(task.name, args, kwargs, error, parameters=names, serializer=self.serializer)

        head, buffers, refs = self.serializer.dumps(value, describe)
        held.extend(ref._entry for ref in refs)
        flags = (WITH_KEYWORDS if kwargs else 0) | (WITH_REFERENCES if refs else 0)
        largest = self.budget.largest
        if not buffers and len(head) <= largest:
            task.arguments = (flags, head, [])
            task.weight = len(head) if len(head) > SMALL_BYTES else 0
            return
        id = object_id(task.id, 0xFFFFFFFF)
        state, kept = inline_or_stored(self.store.write, id, head, buffers, self.process.id, largest=largest)
        if state == INLINE:
            task.arguments = (flags, *kept)
            task.weight = len(head) + sum(map(len, kept[1]))
            return
        entry = Entry(id, 0)
        entry.resolve(state, kept)
        with self.process.lock:
            self.ownership.objects[id] = entry
        held.append(entry)
        task.arguments = (flags, id, kept)

    def register(self, task: Task) -> None:
        """Note a new task and its objects."""
        if task.weight:
            self.budget.begin(task)
        objects = self.ownership.objects
        entries = task.entries
        if type(entries) is list:
            for entry in entries:
                objects[entry.id] = entry
        else:
            objects[entries.id] = entries  # type: ignore[union-attr]

    def resolve_slots(self, task: Task, on_ready: Callable[[Task], None]) -> bool:
        """Return whether every argument is there; if not, `on_ready(task)` is called when they all are."""
        if task.slots is None:
            return True
        waiting = 0
        for _, entry in task.slots:
            if entry.state >= LOST:
                self.ownership.recover(entry)
            if entry.state == PENDING:
                waiting += 1

                def ready(entry: Entry) -> None:
                    task.waiting -= 1
                    if task.waiting == 0:
                        on_ready(task)

                entry.when_ready(ready)
                if entry.owner is not None:
                    self.ownership.fetch(entry)
        task.waiting += waiting
        return waiting == 0

    def lacks_argument(self, task: Task) -> bool:
        """Return whether an argument that was there was lost since, with the node that had it."""
        return any(entry.state == PENDING or entry.state >= LOST for _, entry in task.slots or ())

    def failed_argument(self, task: Task) -> Any:
        """Return the failure of the first argument that has failed, or None."""
        for _, entry in task.slots or ():
            if entry.state == FAILED:
                return entry.value
        return None

    def slots_message(self, task: Task) -> tuple[Any, ...]:
        """Return the task's reference arguments as they travel: key, result, and for stored ones who owns them."""
        if task.slots is None:
            return ()
        message = []
        for key, entry in task.slots:
            if entry.state == INLINE and type(entry.value) is bytes:
                message.append((key, 0, entry.value))
            elif entry.state == INLINE:
                message.append((key, *in_message(entry.state, entry.value)))
            else:
                details = entry.details
                owner = (details.owner, details.address) if details is not None and details.owner else self._self
                message.append((key, 2, entry.id, entry.value, owner))
        return tuple(message)

    # -- after -----------------------------------------------------------------------------------------------------

    def _on_done(self, connection: Connection, message: Message) -> None:
        task = self.running.pop(message[1], None)
        if task is None:
            return
        entry: Entry = task.entries  # type: ignore[assignment]
        entry.resolve(INLINE, message[2])
        if task.holds is not None:
            self.ownership.release(task.holds)
        if not entry.local:
            self.ownership.free_unneeded(entry)
        if task.weight:
            self.budget.end(task)
        self.on_finished(task)

    def _on_results(self, connection: Connection, message: Message) -> None:
        _, id, results, carried = message
        task = self.running.pop(id, None)
        sender = connection.info.id
        if task is None:
            for index, (result, refs) in enumerate(zip(results, carried, strict=False)):
                self.ownership.discard(object_id(TaskId(id), index), result, refs, sender)
            return
        if task.definition.returns == op.DYNAMIC:
            self._gather(task)
        else:
            for entry, result, refs in zip(task.all_entries(), results, carried, strict=False):
                if entry.state == PENDING:
                    self.ownership.settle(entry, result, refs, sender, entry.id)
                else:  # of a task that ran again because another result of it was lost
                    self.ownership.discard(entry.id, result, refs, sender)
        if task.stream is not None:
            task.stream.finish()
        self._release(task)

    def _on_failed(self, connection: Connection, message: Message) -> None:
        _, id, kind, data = message
        task = self.running.pop(id, None)
        if task is None:
            return
        if kind == op.USER_ERROR and task.definition.retry_exceptions and self._may_retry(task, data):
            self.on_finished(task)
            self.on_retry(task)
            return
        self.fail(task, kind, data)

    def _may_retry(self, task: Task, data: bytes) -> bool:
        wanted = task.definition.retry_exceptions
        if task.retries == 0 or task.cancelled:
            return False
        if wanted is not True:
            error = rebuild(data)
            if not isinstance(error, wanted):  # type: ignore[arg-type]
                return False
        if task.retries > 0:
            task.retries -= 1
        task.attempt += 1
        return True

    def fail(self, task: Task, kind: int, data: bytes) -> None:
        """End a task with a failure."""
        self.running.pop(task.id, None)
        for entry in task.all_entries():
            if entry.state == PENDING:
                entry.resolve(FAILED, (kind, data))
                self.ownership.free_unneeded(entry)
        if task.stream is not None:
            self.break_stream(task, (kind, data))
        self._release(task)

    def fail_with(self, task: Task, error: KernelError) -> None:
        """End a task with an error of ours."""
        self.fail(task, op.CANCELLED if isinstance(error, TaskCancelledError) else op.SYSTEM_ERROR, pickle.dumps(error))

    def retry_or_fail(self, task: Task, error: FaultError, consume: bool = True) -> bool:
        """After a fault: run the task again if it may (return True), else end it with `error`."""
        self.running.pop(task.id, None)
        if task.cancelled:
            self.fail_with(task, cancelled_error(task))
            return False
        if consume:
            if task.retries == 0:
                self.fail_with(task, error)
                return False
            if task.retries > 0:
                task.retries -= 1
            task.attempt += 1
        task.place = None
        return True

    def _release(self, task: Task) -> None:
        if not self.keep_recipe(task) and task.holds is not None:
            self.ownership.release(task.holds)
            task.holds = None
        self.budget.end(task)
        self.on_finished(task)

    # -- streams ---------------------------------------------------------------------------------------------------

    def _on_stream_item(self, connection: Connection, message: Message) -> None:
        _, id, index, result, carried = message
        task = self.running.get(id)
        sender = connection.info.id
        key = object_id(TaskId(id), index)
        stream = task.stream if task is not None else None
        if stream is not None and stream.sender is not connection:
            stream.sender = connection
            if stream.closed or stream.taken:  # said to nobody yet, or to a worker that has died
                self.process.send(connection, (op.STREAM_TAKEN, id, -1 if stream.closed else stream.taken))
        if task is None or stream is None or stream.closed or index <= stream.received:
            self.ownership.discard(key, result, carried, sender)  # nobody listens, or a retried task repeats itself
            return
        entry = Entry(key, 1)
        entry.site = task.site
        self.ownership.objects[key] = entry
        self.ownership.settle(entry, result, carried, sender, key)
        stream.append(ObjectRef(entry), index)

    def _gather(self, task: Task) -> None:
        """Make the one value of a task with a dynamic number of returns: the list of its references."""
        assert task.stream is not None
        entry = task.all_entries()[0]
        head, buffers, refs = self.serializer.dumps(DynamicReturns(task.stream.take_all()))
        self.ownership.contain(entry, refs)
        entry.resolve(INLINE, inline(head, buffers))
        self.ownership.free_unneeded(entry)

    def break_stream(self, task: Task, failure: tuple[int, bytes]) -> None:
        """End a stream with an item that raises."""
        stream = task.stream
        assert stream is not None
        index = stream.received + 1
        entry = Entry(object_id(task.id, index), 1)
        entry.site = task.site
        self.ownership.objects[entry.id] = entry
        entry.resolve(FAILED, failure)
        stream.append(ObjectRef(entry), index)
        stream.finish()


def cancelled_error(task: Task) -> TaskCancelledError:
    """Return the error of a task that was cancelled."""
    return TaskCancelledError(f"task {task.name}() ({task.id.hex()}) was cancelled")
