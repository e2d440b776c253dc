"""Describe the workers of a node to the memory guard, and record which of them it ends."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_processes.node import worker_pool as pool
from kernel_processes.node.worker_control import WorkerControl
from kernel_processes.node.worker_pool import WorkerPool, WorkerRecord
from kernel_processes.system.processes import session_of
from kernel_spec.ids import ProcessId
from kernel_spec.memory_guards import ACTOR, ENDING, IDLE, TASK, MemoryGuard, WorkerMemory

_KINDS = {pool.IDLE: IDLE, pool.LEASED: TASK, pool.ACTOR: ACTOR, pool.ENDING: ENDING}


class GuardedWorkers:
    """Shows a memory guard the workers in `pool` that have a process and are no longer starting."""

    def __init__(self, pool: WorkerPool, control: WorkerControl) -> None:
        self._pool = pool
        self._control = control

    def pids(self) -> list[int]:
        """Return the processes in whose POSIX sessions these workers run."""
        return [leader_of(worker) for worker in self._workers()]

    def bound_pids(self, guard: MemoryGuard) -> list[int]:
        """Return the same for those workers for which the memory that they reserve is a limit."""
        return [leader_of(w) for w in self._workers() if guard.is_bound(_KINDS[w.state]) and w.work.memory]

    def memories(self, sizes: Mapping[int, int]) -> list[WorkerMemory]:
        """Return what the guard is told of each; `sizes` are bytes by pid, 0 for those that are not in it."""
        return [
            WorkerMemory(
                worker.id,
                worker.pid,
                name_of(worker),
                _KINDS[worker.state],
                sizes.get(leader_of(worker), 0),
                again=worker.restarts != 0 if worker.state == pool.ACTOR else worker.work.repeatable,
                owner=worker.work.owner,
                since=worker.leased_at,
                reserved=worker.work.memory,
            )
            for worker in self._workers()
        ]

    def record(self, id: ProcessId) -> WorkerRecord:
        """Return the pool's record of a worker."""
        return self._pool.workers[id]

    def retire(self, id: ProcessId) -> None:
        """Ask an idle worker to end."""
        worker = self._pool.workers[id]
        worker.retiring = True
        self._control.ask_to_retire(worker)

    def end(self, id: ProcessId, cause: str) -> None:
        """Kill a worker; its error gives the cause."""
        self._control.kill(id, cause)

    def _workers(self) -> list[WorkerRecord]:
        return [worker for worker in self._pool.workers.values() if worker.pid and worker.state in _KINDS]


def leader_of(worker: WorkerRecord) -> int:
    """Return the leader of the POSIX session that a worker runs in, where its memory is counted.

    It is the process that was forked for it, unless that has a container run the worker.
    """
    return (session_of(worker.peer.info.pid) if worker.peer is not None else 0) or worker.pid


def name_of(worker: WorkerRecord) -> str:
    """Return a worker's name for messages: its actor's class, or the task for which it was leased first."""
    return worker.actor or (f"worker leased for {worker.work.name}()" if worker.work.name else "")
