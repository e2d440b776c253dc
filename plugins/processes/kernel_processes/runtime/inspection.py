"""Explain what this process holds and waits for: used by `explain`, `kernel memory` and the warnings of `get`."""

from __future__ import annotations

import heapq
import itertools
import os
import pickle
from collections import Counter
from collections.abc import Mapping
from typing import Any

from kernel.logs import Logger
from kernel.runtime.object_entry import PENDING, STATE_NAMES, ObjectEntry
from kernel_engine.objects.ownership import Ownership
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_processes.runtime.actor_calls import ActorCaller, Channel
from kernel_processes.runtime.circular_waits import CircularWaits
from kernel_processes.runtime.process import Process
from kernel_processes.runtime.submission import TaskSubmitter
from kernel_spec.errors import KernelError
from kernel_spec.ids import ObjectId, task_of

Question = tuple[str, bytes | str]
"""A question that only the agent can answer: a method of the agent and its argument."""

MATCHES_SHOWN = 20
PATIENCE_SECONDS = 2.0
"""Seconds for another process to report why something waits."""


class Inspection:
    """Explains the state of the other parts, which it reads and never changes."""

    def __init__(
        self,
        process: Process,
        ownership: Ownership,
        tasks: TaskTable,
        submitter: TaskSubmitter,
        actors: ActorCaller,
        promised: Mapping[ObjectId, tuple[str, str]],
    ) -> None:
        self._process = process
        self._ownership = ownership
        self._tasks = tasks
        self._submitter = submitter
        self._actors = actors
        self._promised = promised
        self._warned: set[bytes] = set()
        self.waits = CircularWaits(process, ownership)
        self._rings: dict[bytes, str] = {}
        """Objects that will never be ready, to the reason, for later questions."""
        self.log = Logger("kernel")
        process.methods["explain_object"] = self._explain_here
        process.methods["explain_matches"] = self._explain_matches
        process.methods["references"] = self._packed_references

    def explain_entry(self, entry: ObjectEntry, patience: float | None = None) -> str:
        """Say what an object is waiting for. May ask the agent or the owner, for `patience` s; not under the lock."""
        patience = PATIENCE_SECONDS if patience is None else patience
        if entry.state != PENDING:
            return f"object {entry.id.hex()} is ready ({STATE_NAMES[entry.state]})"
        if ring := self.waits.find(entry, patience):
            self._rings[entry.id] = ring
            return ring
        if entry.owner is not None:
            return self._explain_borrowed(entry, patience)
        task: Task | None = entry.task
        if task is None:
            question = self._promised.get(entry.id)
            return self._ask(patience, *question) if question else f"object {entry.id.hex()} has no task"
        return self.explain_task(task, patience)

    def explain_task(self, task: Task, patience: float) -> str:
        """Return a text that says what a task is waiting for."""
        with self._process.lock:
            text, question = self._why(task)
            worker = getattr(task.place, "worker", None)
        if question is not None:
            text = f"{text}: {self._ask(patience, *question)}"
        if worker is not None and (breakpoint := self._ask(patience, "explain_breakpoint", task.id, worker)):
            return f"{text}; {breakpoint}"
        return text

    def _why(self, task: Task) -> tuple[str, Question | None]:
        """Return the explanation as far as this process knows it, and the question to the agent. Under the lock."""
        if isinstance(task.place, Channel):
            channel = task.place
            in_flight = task.id in channel.in_flight
            return self._actors.explain(task), None if in_flight else ("explain_actor", channel.id)
        text = self._submitter.explain(task)
        if task.place is not None:
            return text, ("explain_worker", task.place.worker)
        request = self._submitter.request_for(task) if task.waiting == 0 else None
        return text, None if request is None else ("explain_lease", request)

    def warn_waiting(self, pending: list[ObjectEntry]) -> None:
        """Log, once per object, what a blocked thread is waiting for."""
        for entry in pending[:1]:
            if entry.id not in self._warned:
                self._warned.add(entry.id)
                reason = self.explain_entry(entry)
                self.log.warning("still waiting for objects", objects=len(pending), reason=reason, pid=os.getpid())

    def references(self, limit: int = 0) -> tuple[int, int, list[tuple[Any, ...]]]:
        """Return how many objects there are here, their bytes, and a row for the `limit` largest (0: for all).

        A row is id, size, state, kind of reference, site, local count, borrowers. References that were collected count
        no more, though nothing else has happened since.
        """
        with self._process.lock:
            self._ownership.drain()
            entries = list(self._ownership.objects.values())
            sizes = [entry.size() or 0 for entry in entries]
            inside = Counter(
                part.id for entry in entries if entry.details is not None for part in entry.details.contained or ()
            )
            shown = range(len(entries))
            if 0 < limit < len(entries):
                shown = heapq.nlargest(limit, shown, sizes.__getitem__)  # type: ignore[assignment]
            return len(entries), sum(sizes), [self._row(entries[index], inside) for index in shown]

    def _packed_references(self, limit: int) -> tuple[int, int, bytes]:
        """Return `references` for the head, the rows pickled: the head's loop passes on what may be very many."""
        count, size, rows = self.references(limit)
        return count, size, pickle.dumps(rows)

    def _row(self, entry: ObjectEntry, inside: Mapping[ObjectId, int]) -> tuple[Any, ...]:
        details = entry.details
        site = details.site if details is not None else None
        task = entry.task
        kind = "put object"
        if details is not None and details.owner is not None:
            kind = "borrowed"
        elif site is None:
            site, kind = task.site if task is not None else getattr(entry, "site", None), "task call"
        where = f"({kind}) {site[0].co_filename}:{site[0].co_name}:{site[1]}" if site is not None else f"({kind})"
        return (
            bytes(entry.id),
            entry.size(),
            STATE_NAMES[entry.state],
            _reference_kind(entry, inside.get(entry.id, 0)),
            where,
            entry.local,
            [bytes(process) for process in (details.borrowers or ())] if details is not None else [],
        )

    def _explain_borrowed(self, entry: ObjectEntry, patience: float) -> str:
        details = entry.details
        assert details is not None and details.owner is not None
        owner = details.owner.hex()[:8]
        try:
            with self._process.lock:
                peer = self._process.peer(details.owner, details.address)
                request = self._process.request(peer, "explain_object", entry.id)
            answer = self._process.result(request, patience)
        except (KernelError, OSError) as error:  # a TimeoutError is an OSError
            return f"object {entry.id.hex()} belongs to process {owner}, which does not answer ({error})"
        breakpoint = self._ask(patience, "explain_breakpoint", task_of(entry.id), b"")
        return f"asked its owner, process {owner}: {answer}{f'; {breakpoint}' if breakpoint else ''}"

    def _explain_here(self, id: bytes) -> str:
        entry = self._ownership.objects.get(id)  # type: ignore[call-overload]
        if entry is None:
            return f"object {id.hex()} is not known here (any more)"
        if entry.state != PENDING or entry.owner is not None or entry.task is None:
            return f"object {id.hex()} is {STATE_NAMES[entry.state]}"
        task = entry.task
        if isinstance(task.place, Channel):
            return self._actors.explain(task)
        return self._submitter.explain(task)

    def _explain_matches(self, prefix: bytes) -> list[tuple[bytes, bool, str, Question | None]]:
        """Return a row per object whose id begins with `prefix`: id, whether it is owned here, why it waits."""
        objects: dict[Any, ObjectEntry] = self._ownership.objects  # type: ignore[assignment]
        if prefix in objects:
            return [self._match(objects[prefix])]
        found = (entry for id, entry in list(objects.items()) if id.startswith(prefix))
        return [self._match(entry) for entry in itertools.islice(found, MATCHES_SHOWN)]

    def _match(self, entry: ObjectEntry) -> tuple[bytes, bool, str, Question | None]:
        text, question = f"it is ready ({STATE_NAMES[entry.state]})", None
        if entry.state == PENDING:
            if entry.id in self._rings:
                text = self._rings[entry.id]
            elif entry.owner is not None:
                text = f"it is made by process {entry.owner.hex()[:8]}"
            elif entry.task is None:
                text, question = "no task makes it", self._promised.get(entry.id)
            else:
                text, question = self._why(entry.task)
        return entry.id, entry.owner is None, text, question

    def _ask(self, patience: float, method: str, *arguments: Any) -> str:
        try:
            return str(self._process.call_agent(method, *arguments, timeout=patience))
        except Exception as error:
            return f"(the node agent could not say: {error})"


def _reference_kind(entry: ObjectEntry, inside: int) -> str:
    """Return the kind of reference by which an object is held; `inside` of how many others it is here."""
    details = entry.details
    if details is not None and details.view is not None:
        return "PINNED_IN_MEMORY"
    if entry.local:
        return "LOCAL_REFERENCE"
    if entry.holds > inside:
        return "USED_BY_PENDING_TASK"
    return "CAPTURED_IN_OBJECT"
