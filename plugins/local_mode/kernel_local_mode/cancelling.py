"""Cancel in local mode: a waiting call never runs, a running one is interrupted, and its own calls are cancelled."""

from __future__ import annotations

import ctypes

from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.one_process.generators import Generators
from kernel_engine.one_process.transport import InProcessOwnership
from kernel_engine.tasks.task import Task, cancelled_error
from kernel_engine.tasks.tasks import TaskTable
from kernel_local_mode.actor import LocalActor
from kernel_local_mode.actor_table import LocalActors
from kernel_local_mode.helpers import Helpers
from kernel_spec.errors import ArgumentError


class Cancelling:
    """Cancels tasks and actor calls. Runs under the lock."""

    def __init__(
        self,
        tasks: TaskTable,
        ownership: InProcessOwnership,
        actors: LocalActors,
        calls: CallThreads,
        helpers: Helpers,
        streaming: Generators,
    ) -> None:
        self._tasks = tasks
        self._ownership = ownership
        self._actors = actors
        self._calls = calls
        self._helpers = helpers
        self._streaming = streaming

    def cancel(self, entry: ObjectEntry, force: bool, recursive: bool) -> None:
        """Cancel the task of an entry, if it has not ended."""
        task: Task | None = entry.task
        if task is None or entry.state != PENDING:
            return
        is_call = isinstance(task.place, LocalActor)
        if is_call and force:
            raise ArgumentError(
                f"cancel(force=True) can't end the actor call {task.name}(): it would end the actor. "
                "Use cancel(ref), or kernel.kill(actor)"
            )
        if is_call and task in task.place.queue:
            self._actors.cancel(task)
        elif task.id in self._tasks.running:
            self._interrupt(task, recursive)
        elif not task.cancelled:
            task.cancelled = True
            self._tasks.fail_with(task, cancelled_error(task))

    def _interrupt(self, task: Task, recursive: bool) -> None:
        task.cancelled = True
        if recursive:
            for entry in list(self._ownership.objects.values()):
                if entry.task is not None and entry.task.parent == task.id and entry.state == PENDING:
                    self.cancel(entry, False, True)
        thread = self._calls.threads.get(task.id)
        loop = task.place.loop if isinstance(task.place, LocalActor) else None
        if loop is not None:
            loop.cancel(task.id)
        elif thread is not None:
            self._calls.cancelled.add(task.id)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
        else:
            self._tasks.fail_with(task, cancelled_error(task))
            self._helpers.submit(lambda: self._streaming.close(task.id))
