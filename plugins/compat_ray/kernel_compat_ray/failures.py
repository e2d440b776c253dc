"""`ray.errors()`: which calls of this program have failed so far."""

from __future__ import annotations

from typing import Any

import kernel

_ID_DIGITS = 16
"""A task's id begins with that of who made the call: for those of the program itself, its job's."""


def errors(all_jobs: bool = False, worker: object = None) -> Any:
    """Return a row per call of this program that failed; `ray.get` of its reference has the traceback.

    A call is in the list within about a second of its end. With `all_jobs` everything of the session that failed, by
    the id of the program or worker that made the call.
    """
    failed: dict[str, list[dict[str, Any]]] = {}
    for event in kernel.timeline() or ():
        if event.get("args", {}).get("failed"):
            failed.setdefault(event["args"]["task_id"][:_ID_DIGITS], []).append(_row(event))
    return failed if all_jobs else failed.get(kernel.get_runtime_context().get_job_id(), [])


def _row(event: dict[str, Any]) -> dict[str, Any]:
    message = f"{event['name']}() raised in process {event['pid']}; ray.get() of its reference shows where"
    return {"type": "task", "message": message, "timestamp": event["ts"] / 1e6, "data": event["args"]}
