"""Decide whether the tasks of a worker that died or can't be reached run again, or fail.

A process learns at once that a connection broke, and from the agent, a little later or earlier, how the worker died.
"""

from __future__ import annotations

from collections.abc import Callable

from kernel_engine.messages import process_messages as op
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_processes.protocol import memory_faults
from kernel_processes.runtime.memory_retries import MemoryRetries
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import FaultError, WorkerDiedError
from kernel_spec.ids import ProcessId


@dataclass(frozen=True, slots=True)
class LostTasks:
    """Holds the tasks of a lost worker, in the order of execution; `unsent` are the ids of unsent ones.

    `place` is where the worker was.
    """

    tasks: list[Task]
    unsent: set[bytes]
    place: str


class TaskRecovery:
    """Keeps the tasks of lost workers until it is known how these died. Under the lock of the process.

    Tasks that were ended for memory rest with `memory_retries` first; `retry(task)` runs others again.
    `forget_estimate(function)` is called for each function that did not end in time, if ever.
    """

    def __init__(
        self,
        table: TaskTable,
        memory_retries: MemoryRetries,
        retry: Callable[[Task], None],
        forget_estimate: Callable[[bytes], object],
    ) -> None:
        self._table = table
        self._memory_retries = memory_retries
        self._retry = retry
        self._forget_estimate = forget_estimate
        self._lost: dict[ProcessId, LostTasks] = {}
        self._deaths: dict[ProcessId, tuple[str, int]] = {}
        """Why workers died whose connections have not closed yet."""

    def worker_lost(self, worker: ProcessId, lost: LostTasks) -> None:
        """The connection to a worker is lost, with tasks that it held or was to be sent."""
        if worker in self._deaths:
            self._recover(lost, *self._deaths.pop(worker))
        elif lost.tasks:
            self._lost[worker] = lost

    def worker_died(self, worker: ProcessId, cause: str, fault: int, is_leased: bool) -> None:
        """The agent says how a worker died, of which the connection may be there (`is_leased`)."""
        lost = self._lost.pop(worker, None)
        if lost is not None:
            self._recover(lost, cause, fault)
        elif is_leased:
            self._deaths[worker] = cause, fault

    def worker_is_new(self, worker: ProcessId) -> None:
        """A worker was leased: what was said of its name before means another."""
        self._deaths.pop(worker, None)

    def _recover(self, lost: LostTasks, cause: str, fault: int) -> None:
        for position, task in enumerate(lost.tasks):
            # If it is dead only the first may have begun; the others behind it lose no retry, but go one at a time from
            # now on. If it was only lost from sight it may run on, and all the others as well.
            self._forget_estimate(task.definition.id)  # type: ignore[union-attr]
            if task.id not in lost.unsent:
                self._table.ownership.clear_away(task.all_entries(), lost.place)
            begun = task.id not in lost.unsent and (position == 0 or fault == op.LOST)
            if begun and fault in memory_faults.FAULTS:
                self._memory_retries.recover(task, cause, fault)
                continue
            error: FaultError = WorkerDiedError(f"task {task.name}() failed because its worker died: {cause}")
            if self._table.retry_or_fail(task, error, consume=begun and fault != op.TAKEN):
                self._retry(task)
