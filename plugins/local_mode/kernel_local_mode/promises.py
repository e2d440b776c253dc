"""References that no task makes, in local mode: they are ready when a placement group is."""

from __future__ import annotations

from typing import Any

from kernel.runtime.object_entry import FAILED, INLINE, PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel_engine.failures.failures import failure_of
from kernel_engine.objects.value_placement import inline
from kernel_engine.one_process.transport import InProcessOwnership
from kernel_engine.tasks.tasks import TaskTable
from kernel_local_mode.groups import LocalGroups
from kernel_spec.errors import KernelError
from kernel_spec.ids import ObjectId, object_id


class LocalPromises:
    """Holds promised objects. `pending` has the group that an object waits for. Runs under the lock."""

    def __init__(self, tasks: TaskTable, ownership: InProcessOwnership, groups: LocalGroups) -> None:
        self.pending: dict[ObjectId, str] = {}
        self._tasks = tasks
        self._ownership = ownership
        self._groups = groups

    def make(self, group: str, value: Any) -> ObjectRef:
        """Return a reference to `value` that is ready when a group is placed."""
        kept = inline(*self._tasks.serializer.dumps(value)[:2])
        entry = ObjectEntry(object_id(self._tasks.next_id(), 0), 1)

        def answered(error: KernelError | None) -> None:
            self.pending.pop(entry.id, None)
            if entry.state == PENDING:
                entry.resolve(*((INLINE, kept) if error is None else (FAILED, failure_of(error))))

        self._ownership.objects[entry.id] = entry
        self.pending[entry.id] = group
        self._groups.when_placed(group, answered)
        return ObjectRef(entry)
