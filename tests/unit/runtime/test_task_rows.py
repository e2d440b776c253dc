"""Rows of tasks: what tells calls of actors from tasks, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.runtime.task_rows import NO_PROCESS, all_tasks
from kernel_engine.tasks.tracing import CallTrace

IN_A_WORKER = {"worker_id": "0a", "worker_pid": 7, "node_id": "0b", "job_id": "0c", "actor_id": None}
IN_AN_ACTOR = {**IN_A_WORKER, "actor_id": "0d"}
IN_ONE_PROCESS = {name: value for name, value in IN_A_WORKER.items() if name != "actor_id"}


def event(name: str, **details: Any) -> dict[str, Any]:
    return {"name": name, "cat": "task", "ts": 2e6, "dur": 5e5, "pid": 7, "args": {"task_id": "01", **details}}


@pytest.mark.parametrize(
    ("place", "name", "kind", "actor"),
    [
        (IN_AN_ACTOR, "Counter.add", "ACTOR_TASK", "0d"),
        (IN_AN_ACTOR, "add", "ACTOR_TASK", "0d"),
        (IN_A_WORKER, "load", "NORMAL_TASK", None),
        (IN_A_WORKER, "stage.load", "NORMAL_TASK", None),
        (IN_ONE_PROCESS, "Counter.add", "ACTOR_TASK", None),
        (NO_PROCESS, "Counter.add", "ACTOR_TASK", None),
        (NO_PROCESS, "load", "NORMAL_TASK", None),
    ],
)
def test_what_has_ended_is_told_apart_by_where_it_ran(place: Any, name: str, kind: str, actor: str | None) -> None:
    (row,) = all_tasks([(place, [event(name)])], [], {})
    assert (row["type"], row["actor_id"], row["name"], row["state"]) == (kind, actor, name, "FINISHED")
    assert (row["start_time_ms"], row["end_time_ms"], row["worker_pid"]) == (2000, 2500, 7)


def test_a_task_under_another_name_tells_its_function() -> None:
    def load() -> None: ...

    trace = CallTrace()
    trace.note_function("stage one", load)
    trace.note_function("load", load)
    for name in ("stage one", "load"):
        trace.add(name, 1.0, 2.0, name.encode())
    rows = all_tasks([(IN_A_WORKER, trace.events())], [], {})
    assert [(row["name"], row["func_or_class_name"]) for row in rows] == [("stage one", "load"), ("load", "load")]


def test_a_call_that_waits_keeps_its_actor_wherever_its_caller_is() -> None:
    waits = {"task_id": "02", "name": "Counter.add", "state": "RUNNING", "attempt_number": 0, "actor_id": "0d"}
    (row,) = all_tasks([], [({**IN_AN_ACTOR, "actor_id": "0e"}, [{**waits, "worker": "0a"}])], {"0a": IN_A_WORKER})
    assert (row["actor_id"], row["worker_id"], row["job_id"]) == ("0d", "0a", "0c")
