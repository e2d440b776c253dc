"""Give the leases that the head grants on a node their workers, and take these back. Runs in the agent's loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.store_quotas import StoreQuotas
from kernel_processes.node.worker_control import WorkerControl
from kernel_processes.node.worker_pool import ENDING, Assign, Instruction, LeasedWork, WorkerPool
from kernel_processes.node.worker_service import WorkerService
from kernel_processes.protocol import head_messages
from kernel_processes.transport.connection import Connection
from kernel_spec.ids import JobId, LeaseId


class WorkerLeases:
    """Finds workers in `pool` for leases, or has `workers` start them. `clock` is the reactor's."""

    def __init__(
        self,
        head: HeadClient,
        pool: WorkerPool,
        workers: WorkerService,
        control: WorkerControl,
        quotas: StoreQuotas,
        clock: Callable[[], float],
    ) -> None:
        self._head = head
        self._pool = pool
        self._workers = workers
        self._control = control
        self._quotas = quotas
        self._clock = clock
        head.handlers |= {head_messages.FIND_WORKER: self._find, head_messages.DROP_WORKER: self._drop}

    def worker_joined(self, connection: Connection) -> None:
        """A worker is up: it serves a lease that waits, or is idle."""
        self._carry_out(self._pool.registered(connection.info.id, connection, self._clock()))

    def on_blocked(self, connection: Connection, blocked: bool, asks: bool = False) -> None:
        """A worker waits inside `get`, or goes on; if it `asks`, it waits for the message that its CPU is free."""
        worker = self._pool.workers.get(connection.info.id)
        if worker is not None and worker.lease is not None:
            worker.blocked, worker.asks = blocked, asks
            self._head.send((head_messages.LEASE_BLOCKED, worker.lease, blocked, asks))

    def _find(self, lease: LeaseId, job: JobId, environment: str, work: tuple[Any, ...], held: bytes) -> None:
        """A lease was granted here, for `work`: find it a worker. `held` is what a later head must be told of it."""
        self._carry_out(self._pool.want(lease, (job, environment), self._clock(), LeasedWork(*work), held))

    def _drop(self, lease: LeaseId, broken: bool, holder_lives: bool) -> None:
        """A lease is over: use its worker again, or (broken) end it."""
        self._pool.unwant(lease)
        worker = self._pool.of_lease(lease)
        if worker is None:
            return
        if not broken:
            self._carry_out(self._pool.released(worker.id, self._clock()))
        elif worker.state != ENDING:
            # Often it is dead already and its holder was the first to notice: the exit status will say how.
            self._control.end(worker.id, "" if holder_lives else "its caller ended", drain=holder_lives)

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for step in instructions:
            if isinstance(step, Assign):
                self._assign(step)
            else:
                self._workers.carry_out([step])

    def _assign(self, step: Assign) -> None:
        worker = self._pool.workers[step.worker]
        self._quotas.limit_worker(worker)
        self._head.send((head_messages.WORKER_FOUND, step.lease, worker.work.grant, step.worker))
