"""Find the nodes with the large arguments of a task, so that it can run there instead of copying them."""

from __future__ import annotations

from kernel.runtime.object_entry import STORED
from kernel_engine.tasks.task import Task
from kernel_processes.transport.addresses import is_relayed

NEAR_BYTES = 1 << 20
"""Minimum total size in bytes of a task's arguments for choosing a place: smaller ones are copied quickly."""


def bytes_near(task: Task) -> dict[str, int]:
    """Return the bytes of a task's stored arguments at each place (see `value_placement`)."""
    found: dict[str, int] = {}
    for entry in task.holds or ():
        if entry.state == STORED:
            size, places = entry.value
            for place in places:
                if not is_relayed(place):  # No tasks run at relayed places.
                    found[place] = found.get(place, 0) + size
    return found


def home_of(task: Task, own: str) -> str:
    """Return the place where most of a task's stored arguments lie, `own` if it is as good as any; "" for nowhere."""
    near = bytes_near(task)
    most = max(near.values(), default=0)
    if most < NEAR_BYTES:
        return ""
    return own if near.get(own) == most else max(near, key=near.__getitem__)
