"""Pack the arguments of a task when it is submitted, wait for them, and send them along with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.runtime.definitions import parameter_names
from kernel.runtime.object_entry import FAILED, INLINE, LOST, PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel_engine.objects.ownership import Ownership
from kernel_engine.objects.value_placement import in_message, inline_or_stored
from kernel_engine.serialization.unpicklable import explain_call
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.argument_budget import SMALL_BYTES, ArgumentBudget
from kernel_engine.tasks.task import Task
from kernel_spec.errors import SerializationError
from kernel_spec.ids import object_id

if TYPE_CHECKING:
    from kernel_engine.surroundings import EngineProcess, EngineStore

WITH_KEYWORDS = 1
WITH_REFERENCES = 2
_OWN_OBJECT = 0xFFFFFFFF
"""Index, among the objects of a task, of the object that holds its arguments if they are large."""


class TaskArguments:
    """Packs the arguments of the tasks that one process submits, and waits for those that are references.

    A reference that is itself an argument fills a *slot*: the worker is given its value. Everything but `pack` runs
    under the process's lock.
    """

    def __init__(
        self, process: EngineProcess, ownership: Ownership, store: EngineStore, serializer: ValueSerializer
    ) -> None:
        self.budget = ArgumentBudget()
        self._process = process
        self._ownership = ownership
        self._store = store
        self.serializer = serializer
        self._self = (process.id, process.address)

    def pack(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Give a new task its arguments (any thread, no lock; may block to store large ones)."""
        slots: list[tuple[int | str, ObjectEntry]] = []
        for index, value in enumerate(args):
            if type(value) is ObjectRef:
                slots.append((index, value._entry))
        for key, value in kwargs.items():
            if type(value) is ObjectRef:
                slots.append((key, value._entry))
        held: list[ObjectEntry] = []
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
            self._serialize(task, plain, named, held)
        if held:
            task.holds = held
            with self._process.lock:
                self._ownership.hold(held)

    def _serialize(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any], held: list[ObjectEntry]) -> None:
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
        id = object_id(task.id, _OWN_OBJECT)
        state, kept = inline_or_stored(self._store.write, id, head, buffers, self._process.id, largest=largest)
        if state == INLINE:
            task.arguments = (flags, *kept)
            task.weight = len(head) + sum(map(len, kept[1]))
            return
        entry = ObjectEntry(id, 0)
        entry.resolve(state, kept)
        with self._process.lock:
            self._ownership.objects[id] = entry
        held.append(entry)
        task.arguments = (flags, id, kept)

    def resolve(self, task: Task, on_ready: Callable[[Task], None]) -> bool:
        """Return whether every argument is there; if not, `on_ready(task)` is called when they all are."""
        if task.slots is None:
            return True
        waiting = 0
        for _, entry in task.slots:
            if entry.state >= LOST:
                self._ownership.recipes.recover(entry)
            if entry.state == PENDING:
                waiting += 1

                def ready(entry: ObjectEntry) -> None:
                    task.waiting -= 1
                    if task.waiting == 0:
                        on_ready(task)

                entry.when_ready(ready)
                if entry.owner is not None:
                    self._ownership.fetch(entry)
        task.waiting += waiting
        return waiting == 0

    def is_lacking(self, task: Task) -> bool:
        """Return whether an argument that was there was lost since, with the node that had it."""
        return any(entry.state == PENDING or entry.state >= LOST for _, entry in task.slots or ())

    def failure(self, task: Task) -> Any:
        """Return the failure of the first argument that has failed, or None."""
        for _, entry in task.slots or ():
            if entry.state == FAILED:
                return entry.value
        return None

    def message(self, task: Task) -> tuple[Any, ...]:
        """Return the task's reference arguments for a message: key, result, and the owner of stored ones."""
        if task.slots is None:
            return ()
        message: list[tuple[Any, ...]] = []
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
