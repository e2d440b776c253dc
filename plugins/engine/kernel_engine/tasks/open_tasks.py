"""List the unfinished tasks and actor calls that this process has submitted, as rows."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kernel.runtime.definitions import FunctionDefinition
from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel.runtime.task_rows import Row, names_of
from kernel_engine.tasks.task import Task
from kernel_spec.resources import quantities


def open_tasks(entries: Iterable[ObjectEntry], running: Container[bytes] = ()) -> list[Row]:
    """Return a row per task that is to make some of `entries`; `running` has the ids of those that run here.

    Under the process's lock.
    """
    tasks: dict[bytes, Task] = {}
    for entry in entries:
        if entry.state == PENDING and entry.owner is None and entry.task is not None:
            tasks[entry.task.id] = entry.task
    return [_open_task(task, running) for task in tasks.values()]


def _open_task(task: Task, running: Container[bytes]) -> Row:
    worker, actor = b"", None
    if called := getattr(task.place, "actor", None):
        actor = called.hex()
        if task.id in task.place.in_flight:
            worker = task.place.worker
    elif task.place is not None:
        worker = getattr(task.place, "worker", b"")
    if worker or task.id in running:
        sent = getattr(task.place, "in_flight", {}) if actor is None else {}
        state = "RUNNING" if next(iter(sent), task.id) == task.id else "SUBMITTED_TO_WORKER"
    elif any(entry.state == PENDING for _, entry in task.slots or ()):
        state = "PENDING_ARGS_AVAIL"
    else:
        state = "PENDING_NODE_ASSIGNMENT"
    definition = task.definition
    wanted, function = {}, None
    if isinstance(definition, FunctionDefinition):
        wanted = quantities(definition.shape.wanted)
        function = getattr(definition.function, "__name__", None)
    return {
        **names_of(task.name, task.id.hex(), actor is not None or bool(task.actor), function),
        "state": state,
        "attempt_number": task.attempt,
        "actor_id": actor,
        "parent_task_id": task.parent.hex() if task.parent else None,
        "required_resources": wanted,
        "error_type": None,
        "error_message": None,
        "start_time_ms": None,
        "end_time_ms": None,
        "worker": bytes(worker).hex(),
    }
