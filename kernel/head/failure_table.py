"""The failures of a session that nobody asked for: kept for whoever looks, and passed on to the programs concerned."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kernel.head.job_table import DETACHED
from kernel.head.nodes import Caller
from kernel.protocol import head_messages
from kernel.protocol.named_messages import packed
from kernel.protocol.pickled import Pickled
from kernel.protocol.process_messages import FAILURE_STREAM
from kernel_spec.observers import FAILED, TASK, LifecycleEvent

if TYPE_CHECKING:
    from kernel.head.head import Head

KEPT = 1000
"""How many failures are kept, the latest."""


class FailureTable:
    """Hears of failures from the processes that made the calls. Runs in the head's loop."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._rows: deque[dict[str, Any]] = deque(maxlen=KEPT)
        head.methods |= {"note_failure": self._note, "failures": self._failures}
        head.observation.past = self._events

    def _note(self, caller: Caller, row: dict[str, Any]) -> None:
        """Take a row of `kernel.runtime.failure_reports`."""
        if "left_out" in row:
            self._pass_on(caller, "kernel", f"{row['left_out']} more failures were not shown; see kernel.errors()")
            return
        row = {**row, "job": bytes(caller.job), "pid": caller.pid, "node": caller.node.id.hex()}
        self._rows.append(row)
        event = _event(row)
        self._head.observation.note(event.kind, event.state, row["task"], event.time, event.detail)
        if row["in_full"]:
            self._pass_on(caller, row["name"], row["text"])

    def _failures(self, caller: Caller, all_jobs: bool) -> Pickled:
        """Return the rows of the caller's job, or of all, oldest first."""
        own = bytes(caller.job)
        return Pickled.of([row for row in self._rows if all_jobs or row["job"] in (own, b"") or _detached(row["job"])])

    def _events(self) -> Iterable[LifecycleEvent]:
        return [_event(row) for row in self._rows]

    def _pass_on(self, caller: Caller, name: str, text: str) -> None:
        """Have the drivers concerned show what a worker tells; a driver has shown its own."""
        if caller.role != "driver":
            message = packed(
                head_messages.ShowLines(job=caller.job, pid=caller.pid, name=name, stream=FAILURE_STREAM, lines=[text])
            )
            for node in self._head.nodes_of_drivers(caller.job):
                node.send(message)


def _detached(job: bytes) -> bool:
    return job.startswith(DETACHED)


def _event(row: dict[str, Any]) -> LifecycleEvent:
    detail = {"name": row["name"], "error": f"{row['type']}: {row['message']}", "pid": row["pid"], "asked_for": False}
    return LifecycleEvent(TASK, FAILED, row["task"].hex(), row["time"], detail)
