"""`ray.errors()`: which calls of this program have failed so far."""

from __future__ import annotations

from typing import Any

import kernel


def errors(all_jobs: bool = False, worker: object = None) -> Any:
    """Return a row per call that failed (with `all_jobs`: job to rows); `ray.get` of its reference has the traceback.

    A call is in the list within about a second of its end.
    """
    rows = [_row(event) for event in kernel.timeline() or () if event.get("args", {}).get("failed")]
    return {kernel.get_runtime_context().get_job_id(): rows} if all_jobs else rows


def _row(event: dict[str, Any]) -> dict[str, Any]:
    message = f"{event['name']}() raised in process {event['pid']}; ray.get() of its reference shows where"
    return {"type": "task", "message": message, "timestamp": event["ts"] / 1e6, "data": event["args"]}
