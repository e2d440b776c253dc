"""Keep failures whose results were never asked for, answer queries about them, and show them to their drivers."""

from __future__ import annotations

from collections import deque
from typing import Any

from kernel_engine.messages.process_messages import FAILURE_STREAM
from kernel_processes.head.driver_output import DriverOutput
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_processes.protocol.detached_jobs import DETACHED
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.observers import FAILED, TASK, LifecycleEvent

KEPT = 1000
"""The number of latest failures that are kept."""


class FailureTable:
    """Keeps the failures that calling processes report. Runs in the head's loop."""

    def __init__(self, dispatcher: MessageDispatcher, observation: Observation, output: DriverOutput) -> None:
        self._observation = observation
        self._output = output
        self._rows: deque[dict[str, Any]] = deque(maxlen=KEPT)
        dispatcher.methods |= {"note_failure": self._note, "failures": self._failures}

    def _note(self, caller: ProcessRecord, row: dict[str, Any]) -> None:
        """Take a row of `kernel_engine.failures.failure_reports`."""
        if "left_out" in row:
            self._pass_on(caller, "kernel", f"{row['left_out']} more failures were not shown; see kernel.errors()")
            return
        row = {**row, "job": bytes(caller.job), "pid": caller.pid, "node": caller.node.id.hex()}
        self._rows.append(row)
        self._observation.note_failure(_event(row))
        if row["in_full"]:
            self._pass_on(caller, row["name"], row["text"])

    def _failures(self, caller: ProcessRecord, all_jobs: bool) -> Pickled:
        """Return the rows of the caller's job, or of all, oldest first."""
        own = bytes(caller.job)
        return Pickled.of([row for row in self._rows if all_jobs or row["job"] in (own, b"") or _detached(row["job"])])

    def _pass_on(self, caller: ProcessRecord, name: str, text: str) -> None:
        """Let the drivers concerned show a worker's report; a driver has already shown its own."""
        if caller.role != "driver":
            self._output.show(caller, name, FAILURE_STREAM, text)


def _detached(job: bytes) -> bool:
    return job.startswith(DETACHED)


def _event(row: dict[str, Any]) -> LifecycleEvent:
    detail = {"name": row["name"], "error": f"{row['type']}: {row['message']}", "pid": row["pid"], "asked_for": False}
    return LifecycleEvent(TASK, FAILED, row["task"].hex(), row["time"], detail)
