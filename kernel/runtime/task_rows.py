"""Tasks and actor calls as rows, for listings: what waits and runs, from who submitted it, and what has ended.

States: PENDING_ARGS_AVAIL (arguments are missing), PENDING_NODE_ASSIGNMENT (it waits for a worker), SUBMITTED_TO_WORKER
(it is behind others there), RUNNING (a call that an actor has received counts as running), FINISHED, FAILED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from kernel.runtime.actor_calls import Channel
from kernel.runtime.definitions import FunctionDefinition
from kernel.runtime.objects import PENDING, Entry
from kernel.runtime.task import Task
from kernel_spec.resources import quantities

Row = dict[str, Any]

NO_PROCESS: Mapping[str, Any] = {"worker_id": None, "worker_pid": None, "node_id": None, "job_id": None}
"""Where something was that a process did which has ended."""
_INIT = "__init__"


def open_tasks(entries: Iterable[Entry], running: Container[bytes] = ()) -> list[Row]:
    """Return a row per task that is to make some of `entries`; `running` has the ids of those that run here.

    Under the process's lock.
    """
    tasks: dict[bytes, Task] = {}
    for entry in entries:
        if entry.state == PENDING and entry.owner is None and entry.task is not None:
            tasks[entry.task.id] = entry.task
    return [_open_task(task, running) for task in tasks.values()]


def all_tasks(
    ended: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]],
    waiting: Sequence[tuple[Mapping[str, Any], Sequence[Row]]],
    workers: Mapping[str, Mapping[str, Any]],
) -> list[Row]:
    """Return a row per task, in the order in which they ended; those that have not come last.

    `ended` are events of the timeline, those of a process with where it is, `waiting` what processes say of their open
    tasks, `workers` where each process is that may run one, by id. Who knows which actor lives in a process says so in
    the place of its events; otherwise a name tells calls of actors.
    """
    rows: dict[str, Row] = {}
    attempts: Counter[str] = Counter()
    events = [(place, event) for place, some in ended for event in some]
    for place, event in sorted(events, key=lambda one: one[1]["ts"]):
        if event["cat"] != "task":
            continue
        id = event["args"]["task_id"]
        rows.pop(id, None)
        known = place.get("worker_id") is not None and "actor_id" in place
        of_actor = place["actor_id"] is not None if known else "." in event["name"]
        rows[id] = {**_ended_task(event, of_actor), **place, "attempt_number": attempts[id]}
        rows[id]["worker_pid"] = event["pid"]
        attempts[id] += 1
    for place, some in waiting:
        for row in some:
            ran = attempts[row["task_id"]]
            worker = workers.get(row.pop("worker"), NO_PROCESS)
            where = {**worker, "job_id": place["job_id"], "actor_id": row["actor_id"]}
            rows.pop(row["task_id"], None)
            rows[row["task_id"]] = {**row, **where, "attempt_number": max(ran, row["attempt_number"])}
    return list(rows.values())


def _open_task(task: Task, running: Container[bytes]) -> Row:
    worker, actor = b"", None
    if isinstance(task.place, Channel):
        actor = task.place.id.hex()
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
        **_names(task.name, task.id.hex(), actor is not None or bool(task.actor), function),
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


def _ended_task(event: Mapping[str, Any], of_actor: bool) -> Row:
    details = event["args"]
    failed = "failed" in details
    return {
        **_names(event["name"], details["task_id"], of_actor, details.get("function")),
        "state": "FAILED" if failed else "FINISHED",
        "actor_id": None,
        "parent_task_id": None,
        "required_resources": None,
        "error_type": "TASK_EXECUTION_EXCEPTION" if failed else None,
        "error_message": details.get("error"),
        "start_time_ms": int(event["ts"] / 1000),
        "end_time_ms": int((event["ts"] + event["dur"]) / 1000),
    }


def _names(name: str, id: str, of_actor: bool, function: str | None) -> Row:
    kind = "NORMAL_TASK"
    if of_actor:
        kind = "ACTOR_CREATION_TASK" if name.endswith(f".{_INIT}") else "ACTOR_TASK"
    return {"task_id": id, "name": name, "func_or_class_name": function or name, "type": kind}
