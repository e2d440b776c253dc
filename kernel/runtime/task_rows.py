"""Tasks and actor calls as rows, for listings: of what has ended, and put together with those of `open_tasks`.

States: PENDING_ARGS_AVAIL (arguments are missing), PENDING_NODE_ASSIGNMENT (it waits for a worker), SUBMITTED_TO_WORKER
(it is behind others there), RUNNING (a call that an actor has received counts as running), FINISHED, FAILED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]

NO_PROCESS: Mapping[str, Any] = {"worker_id": None, "worker_pid": None, "node_id": None, "job_id": None}
"""The columns about the process, for a call whose process has ended."""
_INIT = "__init__"


def all_tasks(
    ended: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]],
    waiting: Sequence[tuple[Mapping[str, Any], Sequence[Row]]],
    workers: Mapping[str, Mapping[str, Any]],
) -> list[Row]:
    """Return a row per task, in the order in which they ended; those that have not come last.

    `ended` are events of the timeline, those of a process with its place; `waiting` are the open tasks that processes
    report; `workers` has the place of each process that may run one, by id. The place of events may name the actor that
    lives in the process; otherwise calls of actors are recognized by their names.
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


def _ended_task(event: Mapping[str, Any], of_actor: bool) -> Row:
    details = event["args"]
    failed = "failed" in details
    return {
        **names_of(event["name"], details["task_id"], of_actor, details.get("function")),
        "state": "FAILED" if failed else "FINISHED",
        "actor_id": None,
        "parent_task_id": None,
        "required_resources": None,
        "error_type": "TASK_EXECUTION_EXCEPTION" if failed else None,
        "error_message": details.get("error"),
        "start_time_ms": int(event["ts"] / 1000),
        "end_time_ms": int((event["ts"] + event["dur"]) / 1000),
    }


def names_of(name: str, id: str, of_actor: bool, function: str | None) -> Row:
    """Return the columns that name a task: a call of an actor, or of a function that may have another name."""
    kind = "NORMAL_TASK"
    if of_actor:
        kind = "ACTOR_CREATION_TASK" if name.endswith(f".{_INIT}") else "ACTOR_TASK"
    return {"task_id": id, "name": name, "func_or_class_name": function or name, "type": kind}
