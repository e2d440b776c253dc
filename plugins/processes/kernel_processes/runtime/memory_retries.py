"""Retry tasks whose worker was ended for memory: they rest, each time longer, and run again. Under the lock.

A task that was ended to make room for a larger one loses no retry. The task that held most of the memory loses one, so
that a task that can never fit fails in the end. A task that exceeded its own quota is not run again, because it would
exceed it again.
"""

from __future__ import annotations

from collections.abc import Callable

from kernel.logs import Logger
from kernel_engine.messages import process_messages as op
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_processes.protocol import memory_faults
from kernel_processes.runtime.process import Process

_WARN_FROM_SECONDS = 4.0
"""A rest of so many seconds shows that a task was ended for memory repeatedly: then a warning is logged."""


class MemoryRetries:
    """Holds the tasks of this process that rest, and calls `run(task)` for each when its time has come."""

    def __init__(self, process: Process, table: TaskTable, run: Callable[[Task], None]) -> None:
        self._process = process
        self._table = table
        self._run = run
        self._due: dict[Task, float] = {}
        self._log = Logger("kernel")

    def recover(self, task: Task, cause: str, fault: int) -> None:
        """Let a task rest, or end it with an OutOfMemoryError, as `fault` and its retries say."""
        if fault == op.OVER_QUOTA:
            task.retries = 0
        counts = fault != op.CROWDED_OUT or task.retries == 0
        if not self._table.retry_or_fail(
            task, memory_faults.task_error(task.name, cause, fault, task.attempt), consume=counts
        ):
            return
        if not counts:
            task.attempt += 1
        seconds = memory_faults.rest_seconds(task.attempt)
        if seconds >= _WARN_FROM_SECONDS:
            self._log.warning("memory ran out again", task=f"{task.name}()", again_in=f"{seconds:.0f} s", reason=cause)
        self._due[task] = self._process.reactor.clock() + seconds
        self._process.reactor.call_later(seconds, lambda: self._end_rest(task))

    def explain(self, task: Task) -> str:
        """Return a text that says that a task rests; "" if it does not."""
        due = self._due.get(task)
        if due is None:
            return ""
        seconds = max(0.0, due - self._process.reactor.clock())
        return f"{task.name}() was ended because memory ran out, and is run again in {seconds:.0f} s"

    def _end_rest(self, task: Task) -> None:
        with self._process.lock:
            del self._due[task]
            if not (task.cancelled or self._process.closing or self._process.ended is not None):
                self._run(task)
        self._process.flush()
