"""Explain what actors, placement groups and objects wait for, given the beginning of an id."""

from __future__ import annotations

from typing import Any

from kernel_processes.head.actor_queries import ActorQueries
from kernel_processes.head.breakpoint_table import BreakpointTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.gathering import PATIENCE_SECONDS, Gathering
from kernel_processes.head.group_requests import GroupRequests
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.ids import ObjectId, ProcessId, task_of


class Explanations:
    """Asks every process, and the parts of the head that keep what processes wait for. Runs in the head's loop."""

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        gathering: Gathering,
        actors: ActorQueries,
        groups: GroupRequests,
        breakpoints: BreakpointTable,
    ) -> None:
        self._methods = dispatcher.methods
        self._gathering = gathering
        self._actors = actors
        self._groups = groups
        self._breakpoints = breakpoints
        dispatcher.methods["explain_any"] = self._explain_any

    def _explain_any(self, caller: ProcessRecord, prefix: bytes) -> Deferred:
        """Explain everything whose id begins with `prefix`, by asking every process.

        The answer has a row each: "actor", "placement group" or "object", id (hexadecimal), sentence; and one for each
        "process" that did not answer, which may know more.
        """
        actors = [actor for actor in self._actors.table.actors if actor.startswith(prefix) or prefix.startswith(actor)]

        def put_together(answers: dict[ProcessId, Any]) -> Pickled:
            found = [("actor", actor.hex(), self._actors.explain(actor)) for actor in actors]
            groups = [group for group in self._groups.table.groups if group.startswith(prefix)]
            found += [("placement group", group.hex(), self._groups.explain(group)) for group in groups]
            objects = [
                ("object", id.hex(), self._explain_object(caller, id, text, question))
                for id, (text, question) in _objects(answers).items()
                if task_of(ObjectId(id)) not in actors
            ]
            if objects or not found:
                silent = self._gathering.silent_processes(answers)
                objects += [("process", id.hex(), _silence(*place)) for id, place in silent.items()]
            return Pickled.of(found + objects)

        return self._gathering.of_user_processes("explain_matches", put_together, prefix)

    def _explain_object(self, caller: ProcessRecord, id: bytes, text: str, question: tuple[str, bytes] | None) -> str:
        """Return what a process says of an object, with the head's answer to its `question`: a method and an id."""
        more = f": {self._methods[question[0]](caller, question[1])}" if question else ""
        waits = self._breakpoints.of(task_of(ObjectId(id)))
        return text + more + (f"; {waits}" if waits else "")


def _objects(answers: dict[ProcessId, Any]) -> dict[bytes, tuple[str, tuple[str, bytes] | None]]:
    """Return what is said of each object, and what is to be asked: of its owner, if that has answered."""
    known: dict[bytes, tuple[str, tuple[str, bytes] | None]] = {}
    for rows in answers.values():
        for id, owned, text, question in rows or ():
            if owned or id not in known:
                known[id] = (text, question)
    return known


def _silence(pid: int, node: str) -> str:
    return f"pid {pid} on node {node} did not answer within {PATIENCE_SECONDS:g} s, and may know more of this"
