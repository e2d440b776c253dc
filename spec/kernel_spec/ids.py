"""Identifiers: plain bytes with a name for each kind.

They are bytes and not objects because a process handles hundreds of thousands of them a second. An object id is
the id of the task that made it followed by a four byte little-endian index, so the maker of any object can be
read off its name.
"""

from typing import NewType

JobId = NewType("JobId", bytes)
NodeId = NewType("NodeId", bytes)
ProcessId = NewType("ProcessId", bytes)
LeaseId = NewType("LeaseId", bytes)
TaskId = NewType("TaskId", bytes)
ActorId = NewType("ActorId", bytes)
GroupId = NewType("GroupId", bytes)
ObjectId = NewType("ObjectId", bytes)

SHORT_ID_BYTES = 8
"""Length of job, node, process, lease and placement group ids."""
TASK_ID_BYTES = 16
"""Length of task and actor ids: an 8 byte name of the submitting process, then its 8 byte counter."""
OBJECT_ID_BYTES = TASK_ID_BYTES + 4
"""Length of object ids (40 hexadecimal characters when printed)."""


def object_id(task: TaskId, index: int) -> ObjectId:
    """Return the id of the `index`-th object made by `task` (0 is its first return value)."""
    return ObjectId(task + index.to_bytes(4, "little"))


def task_of(object_id: ObjectId) -> TaskId:
    """Return the id of the task that made `object_id`."""
    return TaskId(object_id[:TASK_ID_BYTES])


def process_of(task: TaskId | ActorId) -> ProcessId:
    """Return the id of the process that submitted `task` or created the actor: its owner."""
    return ProcessId(task[:SHORT_ID_BYTES])
