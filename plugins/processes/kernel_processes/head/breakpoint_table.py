"""The breakpoints of a session that wait for a debugger, and which debugger is attached to which.

Workers report their breakpoints repeatedly while they wait, so that a new head knows them within seconds, too.
"""

from __future__ import annotations

from typing import Any

from kernel_engine.messages.process_messages import NOTICE_STREAM
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.driver_output import DriverOutput
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.protocol.debug_conversation import ATTACH, ATTACHED, DETACH, OVER, WAITING, DebugReply
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.errors import OptionError
from kernel_spec.ids import ProcessId


class BreakpointTable:
    """Keeps the breakpoints that workers report, and relays between workers and debuggers. Runs in the head's loop."""

    def __init__(self, dispatcher: MessageDispatcher, cluster: ClusterTable, output: DriverOutput) -> None:
        self._cluster = cluster
        self._output = output
        self._rows: dict[str, dict[str, Any]] = {}
        """Breakpoint id to what `worker.breakpoints` reports, and `worker`, `pid`, `node_id`, `job_id`."""
        self._attached: dict[str, ProcessId] = {}
        dispatcher.methods |= {
            "note_breakpoint": self._note,
            "breakpoints": self._list,
            "debug": self._debug,
            "explain_breakpoint": self._explain,
        }

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone: its breakpoints as well, and those that it was attached to wait again."""
        process = caller.id
        for id, row in list(self._rows.items()):
            if row["worker"] == process:
                self._forget(id)
        for id, debugger in list(self._attached.items()):
            if debugger == process:
                self._tell(id, debugger, DETACH)
                self._detach(id)

    def of(self, task: bytes, worker: bytes = b"") -> str:
        """Return a sentence on the breakpoint at which a task or its process waits; "" if it waits at none."""
        rows = [row for row in self._rows.values() if row["state"] in (WAITING, ATTACHED)]
        for row in rows:
            if row["task"] == task:
                return f"it {_words(row)}"
        for row in rows:
            if row["worker"] == worker:
                return f"{row['name']} in the same process {_words(row)}"
        return ""

    # -- methods ---------------------------------------------------------------------------------------------------

    def _note(self, caller: ProcessRecord, row: dict[str, Any]) -> None:
        id, before = row["id"], self._rows.get(row["id"])
        if row["state"] == OVER and id not in self._attached:
            self._forget(id)
            return
        where = {"worker": caller.id, "pid": caller.pid, "node_id": caller.node.id.hex(), "job_id": caller.job.hex()}
        self._rows[id] = {**row, **where}
        if row["state"] == WAITING and (before is None or before["since"] != row["since"]):
            self._announce(caller, row)

    def _announce(self, caller: ProcessRecord, row: dict[str, Any]) -> None:
        what = f"failed with {row['error']} and" if row["error"] else "is at a breakpoint and"
        text = f"{row['name']} {what} waits for a debugger at {_place(row)}; attach with: kernel debug {row['id']}"
        self._output.show(caller, row["name"], NOTICE_STREAM, text)

    def _list(self, caller: ProcessRecord) -> Pickled:
        """Return a row per breakpoint, that which waits longest first."""
        rows = [row for row in self._rows.values() if row["state"] != OVER]
        return Pickled.of(sorted(rows, key=lambda row: (row["since"], row["id"])))

    def _debug(self, caller: ProcessRecord, id: str, verb: str, number: int, text: str) -> Deferred:
        """Carry out a command of the attached debugger; answer a `DebugReply` as a tuple, or why not."""
        if id not in self._rows:
            raise OptionError(f"no breakpoint {id!r} waits (any more)")
        if verb == ATTACH:
            self._attached.setdefault(id, caller.id)
        elif verb == DETACH and self._attached.get(id) == caller.id:
            self._detach(id)
        deferred = Deferred()

        def answered(answer: Any) -> None:
            if answer is None:
                answer = ("its process is gone, or does not answer",)
            elif len(answer) > 1 and DebugReply(*answer).ended:
                self._forget(id)
            deferred.set(Pickled.of(tuple(answer)))

        self._tell(id, caller.id, verb, number, text, answered)
        return deferred

    def _explain(self, caller: ProcessRecord, task: bytes, worker: bytes) -> str:
        return self.of(task, worker)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _tell(
        self, id: str, debugger: bytes, verb: str, number: int = 0, text: str = "", then: Any = lambda answer: None
    ) -> None:
        row = self._rows.get(id)
        worker = self._cluster.callers.get(row["worker"]) if row is not None else None
        if worker is None:
            then(None)
        else:
            self._cluster.ask(worker, "debug", then, id, bytes(debugger), verb, number, text)

    def _detach(self, id: str) -> None:
        """Note that no debugger is attached to it any more."""
        del self._attached[id]
        if self._rows[id]["state"] == OVER:
            self._forget(id)

    def _forget(self, id: str) -> None:
        self._rows.pop(id, None)
        self._attached.pop(id, None)


def _place(row: dict[str, Any]) -> str:
    return f"{row['file']}:{row['line']}"


def _words(row: dict[str, Any]) -> str:
    how = f"failed with {row['error']}, and waits for a debugger" if row["error"] else "waits at a breakpoint"
    return f"{how} at {_place(row)}; attach with: kernel debug {row['id']}"
