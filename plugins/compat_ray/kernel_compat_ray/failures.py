"""List the calls of this program that have failed so far, for `ray.errors()`."""

from __future__ import annotations

from typing import Any

import kernel

_ID_DIGITS = 16
"""Length of the prefix of a task's id that identifies the caller: a worker, or for calls of the program its job."""


def errors(all_jobs: bool = False, worker: object = None) -> Any:
    """Return a row for each failed call of this program, with the traceback if its result was not asked for.

    Of other calls, `ray.get` of the reference shows the traceback. A call is in the list within about a second of its
    end. With `all_jobs` the result has all failed calls of the session, by the id of the calling program or worker.
    """
    failed: dict[str, list[dict[str, Any]]] = {}
    unread = {row["task_id"]: row for row in kernel.errors(all_jobs)}
    own = kernel.get_runtime_context().get_job_id()
    for event in kernel.timeline() or ():
        arguments = event.get("args", {})
        if arguments.get("failed"):
            found = unread.pop(arguments["task_id"], None)
            by = own if found is not None and not all_jobs else arguments["task_id"][:_ID_DIGITS]
            said = f"raised in process {event['pid']}; ray.get() of its reference shows where"
            if found is not None:
                said = f"raised in process {event['pid']}:\n{found['text']}"
            row = _row(f"{event['name']}() {said}", event["ts"] / 1e6, arguments)
            failed.setdefault(by, []).append(row)
    for id, found in unread.items():  # A constructor failed, or a task's worker died: no call has ended.
        by = id[:_ID_DIGITS] if all_jobs else own
        row = _row(f"{found['name']} failed:\n{found['text']}", found["time"], {"task_id": id, "failed": True})
        failed.setdefault(by, []).append(row)
    return failed if all_jobs else failed.get(own, [])


def _row(message: str, timestamp: float, data: dict[str, Any]) -> dict[str, Any]:
    return {"type": "task", "message": message, "timestamp": timestamp, "data": data}
