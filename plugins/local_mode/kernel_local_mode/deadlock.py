"""Decide whether a wait can ever end. One process can know this, so that a hopeless wait fails with its reason.

`why_never` follows what a value waits for: resources that no node has, arguments, the turn at an actor, the thread
that makes it. `is_quiet` returns whether nothing runs anywhere, so that nobody could ever end the wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from kernel.runtime.definitions import FunctionDefinition
from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel_engine.objects.futures import DELIVERY_THREAD
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.one_process.generators import Generators
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_local_mode.actor import ALIVE, LocalActor
from kernel_local_mode.actor import THREAD_NAME as ACTOR_THREAD
from kernel_local_mode.actor_table import LocalActors
from kernel_local_mode.event_loop import THREAD_NAME as LOOP_THREAD
from kernel_local_mode.helpers import THREAD_NAME as HELPER_THREAD
from kernel_local_mode.helpers import Helpers
from kernel_local_mode.resources import LocalResources
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ObjectId

_LOOP_SECONDS = 0.2
_DEPTH = 100
"""Maximum length of a chain of waits that is followed. A longer one is hopeless once nothing runs."""


@dataclass(frozen=True, slots=True)
class _Search:
    """Holds the objects from the first to the present one of a search, and the results for others."""

    path: frozenset[bytes]
    known: dict[bytes, str]


class DeadlockDetector:
    """Finds waits that can never end. It reads the other parts and changes nothing.

    `promised` has the group that an object waits for which no task makes; `callers` are the threads of the program
    that have called the runtime.
    """

    def __init__(
        self,
        tasks: TaskTable,
        calls: CallThreads,
        streaming: Generators,
        actors: LocalActors,
        resources: LocalResources,
        helpers: Helpers,
        promised: Mapping[ObjectId, str],
        callers: Collection[int],
    ) -> None:
        self._tasks = tasks
        self._calls = calls
        self._streaming = streaming
        self._actors = actors
        self._resources = resources
        self._helpers = helpers
        self._promised = promised
        self._callers = callers
        self.blocked: dict[int, list[ObjectEntry]] = {}

    def why_never(self, entry: ObjectEntry) -> str:
        """Return why `entry` can't ever be ready if the calling thread waits for it, or nothing. Under the lock."""
        return self._why(entry, _Search(frozenset(), {}))

    def _why(self, entry: ObjectEntry, search: _Search) -> str:
        task = entry.task
        if entry.state != PENDING or task is None:
            group = self._promised.get(entry.id)
            return self._resources.groups.why_never(group) if group else ""
        if entry.id in search.path:
            return f"{task.name}() waits, by way of others, for itself"
        known = search.known.get(entry.id)
        if known is None and len(search.path) > _DEPTH:
            return ""
        if known is None:
            known = self._why_task(task, _Search(search.path | {entry.id}, search.known))
            search.known[entry.id] = known
        return known

    def _why_task(self, task: Task, search: _Search) -> str:
        thread = self._calls.threads.get(task.id)
        if thread is not None:
            return self._why_thread(task, thread, search)
        if task.id in self._streaming.runs and task.definition.backpressure:
            return f"{task.name}() yielded as many items as it may be ahead (stream_ahead), and nobody takes them"
        if task.id in self._tasks.running:
            return ""
        return self._any([argument for _, argument in task.slots or ()], search) or self._why_place(task, search)

    def _why_thread(self, task: Task, thread: int, search: _Search) -> str:
        if thread == threading.get_ident():
            return f"{task.name}() runs further up in the thread that waits for it"
        why = self._any(self.blocked.get(thread, []), search)
        return f"{task.name}() waits: {why}" if why else ""

    def _any(self, entries: list[ObjectEntry], search: _Search) -> str:
        for entry in entries:
            why = self._why(entry, search)
            if why:
                return why
        return ""

    def _why_place(self, task: Task, search: _Search) -> str:
        """Return why a task never gets a worker, or a call its turn."""
        if not isinstance(task.place, LocalActor):
            definition: FunctionDefinition = task.definition  # type: ignore[assignment]
            why = self._resources.infeasible(definition.shape)
            return f"{task.name}() waits for a worker: {why}" if why else ""
        actor = task.place
        if actor.state != ALIVE:
            why = self._resources.infeasible(actor.options)
            arguments = [argument for _, argument in actor.creation.slots or ()]
            return f"actor {actor.name} waits for a worker: {why}" if why else self._any(arguments, search)
        group = actor.group_of(task)
        if group.active < group.limit:
            return ""
        why = ""
        for other, its_group in list(actor.running.values()):
            if its_group is group:
                why = self._any([entry for entry in other.all_entries() if entry.state == PENDING], search)
                if not why:
                    return ""
        return f"{task.name}() waits for its turn: {why}" if why else ""

    def is_quiet(self) -> bool:
        """Return whether nothing that is known of could ever end a wait of the calling thread. Not under the lock."""
        if not self._helpers.is_idle or self._stepping():
            return False
        me = threading.get_ident()
        for thread in threading.enumerate():
            if thread.ident == me or thread.ident in self.blocked or thread.name == LOOP_THREAD:
                continue
            if thread.name in (ACTOR_THREAD, HELPER_THREAD, DELIVERY_THREAD) or self._may_call(thread):
                return False
        loops = [actor.loop for actor in list(self._actors.actors.values()) if actor.loop is not None]
        return all(loop.is_idle(_LOOP_SECONDS) for loop in loops)

    def _may_call(self, thread: threading.Thread) -> bool:
        """Return whether a thread of the program may end the wait; daemons and timers only if they used the runtime."""
        is_service = thread.daemon or isinstance(thread, threading.Timer)
        return not is_service or thread.ident in self._callers

    def _stepping(self) -> bool:
        """Return whether a generator makes an item just now."""
        return any(run.stepping.locked() for run in list(self._streaming.runs.values()))

    def block(self, entries: list[ObjectEntry]) -> Callable[[], None]:
        """Note that the calling thread waits for `entries`; call what is returned when it no longer does."""
        thread = threading.get_ident()
        before = self.blocked.get(thread)
        self.blocked[thread] = entries

        def leave() -> None:
            if before is None:
                self.blocked.pop(thread, None)
            else:
                self.blocked[thread] = before

        return leave
