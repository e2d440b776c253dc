"""Find calls that wait for each other in a ring, by asking process after process which call waits for which object.

The owner of an object knows the call that makes it, and where that call runs or which arguments it waits for. The
process where a call runs knows what the call waits for, or behind which other calls it is queued.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from kernel.runtime.execution_context import Execution, current_execution
from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel.runtime.waiter import Waiter
from kernel_engine.objects.ownership import Ownership
from kernel_engine.tasks.task import Task
from kernel_processes.runtime.actor_calls import PENDING as CHANNEL_PENDING
from kernel_processes.runtime.actor_calls import RESTARTING, Channel
from kernel_processes.runtime.process import Process
from kernel_spec.errors import KernelError
from kernel_spec.ids import ObjectId, ProcessId

if TYPE_CHECKING:
    import asyncio

Place = tuple[ProcessId, str]
"""A process and its address."""
Awaited = tuple[bytes, ProcessId, str]
"""An object that is waited for, and its owner's id and address."""

_STEPS = 100
"""Maximum number of objects that are followed: a longer ring is not found."""


class Ahead(NamedTuple):
    """Names the calls that hold up a call which itself waits for nothing: `count` blocked calls or more.

    Coroutines that await count if `coroutines`; of the threads that block, only `thread`, if it is given.
    """

    count: int
    coroutines: bool = False
    thread: int = 0


class WaitLink(NamedTuple):
    """Holds a call in a chain of calls that each wait for the next, and how the call before waits for this one."""

    task: bytes
    name: str
    relation: str = "waits for"


Path = tuple[WaitLink, ...]


class CircularWaits:
    """Knows for what the threads of this process wait. `blocked` has, by thread, the call that runs there and what for,
    `awaited`, by their futures, the objects that coroutines await, and the calls that these belong to.

    `ahead(task)` is set by a worker: what holds up a call that is queued or runs here, if anything can.
    """

    def __init__(self, process: Process, ownership: Ownership) -> None:
        self._process = process
        self._ownership = ownership
        self.blocked: dict[int, tuple[Execution, list[ObjectEntry], Waiter | None]] = {}
        self.awaited: Mapping[asyncio.Future[Any], tuple[Execution, ObjectEntry]] = {}
        self.ahead: Callable[[bytes], Ahead | None] = lambda task: None
        process.methods["waits_of_object"] = self._of_object
        process.methods["waits_of_call"] = self._of_call

    def begin(self, pending: list[ObjectEntry], waiter: Waiter) -> None:
        """The calling thread begins to wait."""
        self.blocked[get_ident()] = current_execution.get(), pending, waiter

    def end(self) -> None:
        """The calling thread has stopped waiting."""
        self.blocked.pop(get_ident(), None)

    def find(self, entry: ObjectEntry, patience: float) -> str:
        """Return the ring that `entry` waits for, if there is one, in a sentence. Takes `patience` seconds at most.

        Not under the lock: it asks other processes.
        """
        thread, here = get_ident(), current_execution.get()
        before = self.blocked.get(thread)
        self.blocked[thread] = here, [entry], None  # though its time may be up
        try:
            return self._search(entry, here, time.monotonic() + patience)
        finally:
            if before is None:
                del self.blocked[thread]
            else:
                self.blocked[thread] = before

    def _search(self, entry: ObjectEntry, here: Execution, deadline: float) -> str:
        stack: list[tuple[Awaited, Path]] = [
            (self._awaited(entry), (WaitLink(here.task, here.name),) if here.task else ())
        ]
        seen: dict[bytes, bytes] = {}
        while stack and len(seen) < _STEPS and time.monotonic() < deadline:
            (id, owner, address), path = stack.pop()
            if id in seen:
                if ring := _closed_by(path, WaitLink(seen[id], "")):
                    return ring
                continue
            call = self._ask((owner, address), "waits_of_object", id, deadline)
            if call is None:
                continue
            task, name, place, arguments, actor = call
            seen[id] = task
            link = WaitLink(task, name)
            if ring := _closed_by(path, link):
                return ring
            path = (*path, link)
            stack += [(argument, path) for argument in arguments]
            if actor:
                place = self._place_of(actor, deadline)
            rows = self._ask(place, "waits_of_call", actor or task, deadline) if place else None
            for other, other_name, awaited in rows or ():
                further = path
                if other != task:
                    link = WaitLink(other, other_name, "waits for" if other == actor else "is queued behind")
                    if ring := _closed_by(path, link):
                        return ring
                    further = (*path, link)
                stack += [(one, further) for one in awaited]
        return ""

    # -- what a process knows --------------------------------------------------------------------------------------

    def _of_object(self, id: bytes) -> tuple[bytes, str, Place | None, list[Awaited], bytes] | None:
        """Return the call that makes an object of this process: id, name, place, arguments that are missing.

        Last, the actor whose constructor it waits for, if it does.
        """
        entry = self._ownership.objects.get(ObjectId(id))
        task: Task | None = entry.task if entry is not None and entry.state == PENDING else None
        if task is None:
            return None
        missing = [self._awaited(one) for _, one in task.slots or () if one.state == PENDING]
        place, connection = task.place, getattr(task.place, "connection", None)
        if missing or connection is None or (isinstance(place, Channel) and task.id not in place.in_flight):
            begins = isinstance(place, Channel) and connection is None and place.state in (CHANNEL_PENDING, RESTARTING)
            return task.id, task.name, None, missing, place.id if begins and not missing else b""
        return task.id, task.name, (place.worker, connection.info.address), [], b""

    def _of_call(self, task: bytes) -> list[tuple[bytes, str, list[Awaited]]]:
        """Return for which objects a call waits that runs here, or the calls that wait ahead of it."""
        blocked = [
            (thread, (bytes(call.task), call.name, self._needed(pending, waiter)))
            for thread, (call, pending, waiter) in list(self.blocked.items())
            if call.task
        ]
        coroutines = self._of_coroutines()
        own = [row for row in [*(row for _, row in blocked), *coroutines] if row[0] == task]
        if own:
            return own
        ahead = self.ahead(task)
        if ahead is None:
            return []
        waiting = [row for thread, row in blocked if ahead.thread in (0, thread)]
        waiting += coroutines if ahead.coroutines else []
        return waiting if len(waiting) >= ahead.count else []

    def _of_coroutines(self) -> list[tuple[bytes, str, list[Awaited]]]:
        """Return the objects that coroutines wait for. One that awaits several may need only some of them."""
        waiting: dict[bytes, tuple[str, list[Awaited]]] = {}
        for future, (call, entry) in list(self.awaited.items()):
            if not future.done() and entry.state == PENDING:
                waiting.setdefault(bytes(call.task), (call.name, []))[1].append(self._awaited(entry))
        return [(task, name, needed if len(needed) == 1 else []) for task, (name, needed) in waiting.items()]

    def _place_of(self, actor: bytes, deadline: float) -> Place | None:
        """Ask where the constructor of an actor runs."""
        try:
            found = self._process.call_agent("place_of_actor", actor, timeout=max(0.0, deadline - time.monotonic()))
        except (KernelError, OSError):
            return None
        return (ProcessId(found[0]), found[1]) if found else None

    def _needed(self, pending: list[ObjectEntry], waiter: Waiter | None) -> list[Awaited]:
        """Return the objects that a thread waits for, if it needs all of them; otherwise none."""
        missing = [entry for entry in pending if entry.state == PENDING]
        some_will_do = waiter is not None and waiter.remaining < len(missing)
        return [] if some_will_do else [self._awaited(entry) for entry in missing]

    def _awaited(self, entry: ObjectEntry) -> Awaited:
        details = entry.details
        if details is None or details.owner is None:
            return entry.id, self._process.id, self._process.address
        return entry.id, details.owner, details.address

    def _ask(self, place: Place, method: str, argument: bytes, deadline: float) -> Any:
        process, address = place
        with self._process.lock:
            if process == self._process.id:
                return self._process.methods[method](argument)
            try:
                request = self._process.request(self._process.peer(process, address), method, argument)
            except OSError:
                return None
        try:
            return self._process.result(request, max(0.0, deadline - time.monotonic()))
        except (KernelError, OSError):  # It does not answer in time, or has ended.
            return None


def _closed_by(path: Path, link: WaitLink) -> str:
    """Return what there is to say if the call of `link` is on the path: each waits for the next, the last for it."""
    tasks = [one.task for one in path]
    if link.task not in tasks:
        return ""
    first, *others = path[tasks.index(link.task) :]
    steps = [*others, WaitLink(first.task, first.name, link.relation)]
    ring = ", which ".join(f"{step.relation} {step.name}()" for step in steps)
    return (
        f"these calls wait for each other in a ring, and none can go on: {first.name}() {ring}. Let one return without "
        "waiting, or let the actor run more calls at a time (max_concurrency, or async methods)"
    )
