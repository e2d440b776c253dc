"""Keep the unfinished tasks and actor calls that were submitted here, and end each one.

`submission` (leases) and `actor_calls` decide where a task runs. Here the worker's answer becomes the values of the
task's objects. Everything but `prepare` runs under the process's lock.
"""

from __future__ import annotations

import itertools
import pickle
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from kernel.runtime.definitions import DYNAMIC, STREAMING, CallOptions, FunctionDefinition
from kernel.runtime.object_entry import FAILED, INLINE, LOST, PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import NO_MORE, DynamicReturns, ObjectStream
from kernel_engine.failures.task_error import rebuild
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_engine.objects.ownership import Ownership
from kernel_engine.objects.recipes import TaskEvents
from kernel_engine.objects.value_placement import inline
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.task import Task, cancelled_error
from kernel_engine.tasks.task_arguments import TaskArguments
from kernel_spec.errors import FaultError, KernelError, TaskCancelledError
from kernel_spec.ids import ObjectId, TaskId, object_id

if TYPE_CHECKING:
    from kernel_engine.surroundings import EngineConnection, EngineProcess, EngineStore

_ZERO = (0).to_bytes(4, "little")


class TaskTable:
    """Holds every unfinished task that this process has submitted."""

    def __init__(
        self,
        process: EngineProcess,
        ownership: Ownership,
        store: EngineStore,
        serializer: ValueSerializer,
        events: TaskEvents,
    ) -> None:
        self.process = process
        self.ownership = ownership
        self.store = store
        self.serializer = serializer
        self.running: dict[bytes, Task] = {}
        self.events = events
        self.arguments = TaskArguments(process, ownership, store, serializer)
        self.failures = ownership.failures
        self.budget = self.arguments.budget
        self._pack = self.arguments.pack
        self._failing: deque[tuple[Task, tuple[int, bytes]]] = deque()
        self._prefix = bytes(process.id)
        self.failed = 0
        """How many tasks and calls have ended with a failure."""
        self._counter = itertools.count(1)
        process.handlers |= {
            op.DONE: self._on_done,
            op.RESULTS: self._on_results,
            op.FAILED: self._on_failed,
            op.STREAM_ITEM: self._on_stream_item,
        }

    def use_serializer(self, serializer: ValueSerializer) -> None:
        """Serialize with what the session chose."""
        self.serializer = self.arguments.serializer = serializer

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
            self._pack(task, args, kwargs)
        returns = definition.returns
        if returns == 1:
            entry = task.entries = ObjectEntry(ObjectId(task.id + _ZERO), 1, task)
            return task, ObjectRef(entry)
        if returns == STREAMING:
            task.entries = ObjectEntry(object_id(task.id, 0), 1, task)
            task.stream = ObjectStream(task.id, ObjectRef(task.entries), definition.backpressure)
            return task, task.stream
        if returns == DYNAMIC:
            task.entries = ObjectEntry(object_id(task.id, 0), 1, task)
            task.stream = ObjectStream(task.id, None, 0)
            return task, ObjectRef(task.entries)
        entries = task.entries = [ObjectEntry(object_id(task.id, index), 1, task) for index in range(returns)]
        return task, ([ObjectRef(entry) for entry in entries] if returns else None)

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
            objects[entries.id] = entries  # type: ignore[union-attr,assignment]

    # -- after -----------------------------------------------------------------------------------------------------

    def _on_done(self, connection: EngineConnection, message: Message) -> None:
        task = self.running.pop(message[1], None)
        if task is None:
            return
        entry: ObjectEntry = task.entries  # type: ignore[assignment]
        entry.resolve(INLINE, message[2])
        if task.holds is not None:
            self.ownership.release(task.holds)
        if not entry.local:
            self.ownership.free_unneeded(entry)
        if task.weight:
            self.budget.end(task)
        self.events.task_ended(task)

    def _on_results(self, connection: EngineConnection, message: Message) -> None:
        _, id, results, carried = message
        task = self.running.pop(id, None)
        sender = connection.info.id
        if task is None:
            for index, (result, refs) in enumerate(zip(results, carried, strict=False)):
                self.ownership.discard(object_id(TaskId(id), index), result, refs, sender)
            return
        if task.definition.returns == DYNAMIC:
            if task.entries.state == PENDING:  # type: ignore[union-attr]
                self._gather(task)
        else:
            for entry, result, refs in zip(task.all_entries(), results, carried, strict=False):
                if entry.state in (PENDING, LOST):
                    self.ownership.settle(entry, result, refs, sender, entry.id)
                else:  # Its task ran again because another result was lost.
                    self.ownership.discard(entry.id, result, refs, sender)
        if task.stream is not None:
            task.stream.finish()
        self._release(task)

    def _on_failed(self, connection: EngineConnection, message: Message) -> None:
        _, id, kind, data = message
        task = self.running.pop(id, None)
        if task is None:
            return
        if kind == op.USER_ERROR and task.definition.retry_exceptions and self._may_retry(task, data):
            self.events.task_ended(task)
            self.events.run_again(task)
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
        self.failed += 1
        self.failures.note(task.id, task.name, _is_of_ended_actor(task), task.all_entries(), (kind, data))
        for entry in task.all_entries():
            if entry.state == PENDING:
                entry.resolve(FAILED, (kind, data))
                self.ownership.free_unneeded(entry)
        if task.stream is not None:
            self.break_stream(task, (kind, data))
        self._release(task)

    def fail_in_turn(self, task: Task, failure: tuple[int, bytes]) -> None:
        """End a task with the failure of an argument, after those that are failing: a chain may have any length."""
        self._failing.append((task, failure))
        if len(self._failing) > 1:
            return
        while self._failing:
            try:
                self.fail(self._failing[0][0], *self._failing[0][1])
            finally:
                self._failing.popleft()

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
        if not self.ownership.recipes.keep(task) and task.holds is not None:
            self.ownership.release(task.holds)
            task.holds = None
        self.budget.end(task)
        self.events.task_ended(task)
        if task.stream is not None and task.stream.awaited:
            self.ownership.recipes.recover_items(task.stream)

    # -- streams ---------------------------------------------------------------------------------------------------

    def _on_stream_item(self, connection: EngineConnection, message: Message) -> None:
        _, id, index, result, carried = message
        task = self.running.get(id)
        sender = connection.info.id
        key = object_id(TaskId(id), index)
        stream = task.stream if task is not None else None
        if task is None or stream is None:
            self.ownership.discard(key, result, carried, sender)
            return
        if stream.sender is not connection:
            stream.sender = connection
            allowance = stream.allowance()
            if allowance is not None:  # It was not sent yet, or its worker has died.
                self.process.send(connection, (op.STREAM_TAKEN, id, allowance))
        if stream.finished or index <= stream.received:
            self._on_repeated_item(connection, task, stream, message)
            return
        if stream.closed:
            self.ownership.discard(key, result, carried, sender)
            return
        entry = ObjectEntry(key, 1)
        entry.site = task.site
        self.ownership.objects[key] = entry
        self.ownership.settle(entry, result, carried, sender, key)
        self.ownership.recipes.keep_item(task, entry)
        stream.append(ObjectRef(entry), index)

    def _on_repeated_item(
        self, connection: EngineConnection, task: Task, stream: ObjectStream, message: Message
    ) -> None:
        """Take an item of a generator that runs again, whose earlier value may have been lost."""
        _, id, index, result, carried = message
        key = object_id(TaskId(id), index)
        stream.awaited.pop(key, None)
        entry = self.ownership.objects.get(key)
        if entry is not None and entry.state in (PENDING, LOST):
            self.ownership.settle(entry, result, carried, connection.info.id, key)
            self.ownership.recipes.keep_item(task, entry)
        else:
            self.ownership.discard(key, result, carried, connection.info.id)
        if index >= stream.received and (stream.finished or stream.closed):
            self.process.send(connection, (op.STREAM_TAKEN, id, NO_MORE))

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
        self._fail_awaited(stream, failure)
        if stream.finished:
            return
        index = stream.received + 1
        entry = ObjectEntry(object_id(task.id, index), 1)
        entry.site = task.site
        self.ownership.objects[entry.id] = entry
        self.failures.note(task.id, task.name, _is_of_ended_actor(task), [entry], failure)
        entry.resolve(FAILED, failure)
        stream.append(ObjectRef(entry), index)
        stream.finish()

    def _fail_awaited(self, stream: ObjectStream, failure: tuple[int, bytes]) -> None:
        """Fail the items that a generator should have yielded once more before it failed."""
        awaited, stream.awaited = stream.awaited, {}
        for id in awaited:
            entry = self.ownership.objects.get(id)
            if entry is not None and entry.state == PENDING:
                entry.resolve(FAILED, failure)
                self.ownership.free_unneeded(entry)


def _is_of_ended_actor(task: Task) -> bool:
    """Return whether a task is a call on an actor that, if it has ended, was ended on purpose."""
    return bool(task.actor) and not getattr(task.place, "crashed", False)
