"""Cancelling in local mode: what waits never runs, what runs is interrupted, what it submitted is cancelled too."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kernel.local.actor import LocalActor
from kernel.runtime.objects import PENDING, Entry
from kernel.runtime.task import Task, cancelled_error
from kernel_spec.errors import ArgumentError

if TYPE_CHECKING:
    from kernel.local.runtime import LocalRuntime


class Cancelling:
    """Runs under the lock."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime

    def cancel(self, entry: Entry, force: bool, recursive: bool) -> None:
        """Cancel the task of an entry, if it has not ended."""
        runtime = self._runtime
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
            runtime.actors.cancel(task)
        elif task.id in runtime.tasks.running:
            self._interrupt(task, recursive)
        elif not task.cancelled:
            task.cancelled = True
            runtime.tasks.fail_with(task, cancelled_error(task))

    def _interrupt(self, task: Task, recursive: bool) -> None:
        runtime = self._runtime
        task.cancelled = True
        if recursive:
            for entry in list(runtime.ownership.objects.values()):
                if entry.task is not None and entry.task.parent == task.id and entry.state == PENDING:
                    self.cancel(entry, False, True)
        thread = runtime.calls.threads.get(task.id)
        loop = task.place.loop if isinstance(task.place, LocalActor) else None
        if loop is not None:
            loop.cancel(task.id)
        elif thread is not None:
            runtime.calls.cancelled.add(task.id)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
        else:
            runtime.tasks.fail_with(task, cancelled_error(task))
            runtime.helpers.submit(lambda: runtime.streaming.close(task.id))
