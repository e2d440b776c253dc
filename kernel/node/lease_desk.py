"""Leases: requests to the scheduler plugin, grants to workers, and everything that ends one. Runs in the loop."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernel.runtime import operations as op
from kernel.transport.connection import Connection, Message
from kernel_spec import scheduling as contract
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, Amounts


@dataclass(slots=True)
class LeaseRecord:
    """One request, and what became of it. `holder` None: an actor's, held by the control service."""

    request: contract.LeaseRequest
    holder: Connection | None
    grant: contract.Grant | None = None
    worker: ProcessId | None = None


class LeaseDesk:
    """Between the processes that want workers, the scheduler, and the pool of workers.

    `find_worker(lease)` is called when a lease is granted; `served(lease, record)` when it has its worker.
    """

    def __init__(
        self,
        scheduler: contract.Scheduler,
        clock: Callable[[], float],
        find_worker: Callable[[LeaseId, LeaseRecord], None],
        drop_worker: Callable[[LeaseId, LeaseRecord, bool], None],
    ) -> None:
        self.scheduler = scheduler
        self.leases: dict[LeaseId, LeaseRecord] = {}
        self._clock = clock
        self._find_worker = find_worker
        self._drop_worker = drop_worker

    def handle(self, event: contract.Event) -> None:
        """Let the scheduler decide, and carry it out."""
        for step in self.scheduler.handle(event, self._clock()):
            record = self.leases.get(step.id)
            if record is None:
                continue
            if isinstance(step, contract.Grant):
                record.grant = step
                self._find_worker(step.id, record)
            elif record.holder is not None:
                record.holder.send((op.RECLAIM_LEASE, step.id))
                record.holder.flush()

    def add_node(self, node: NodeId, total: dict[str, float], labels: dict[str, str], devices: tuple[str, ...]) -> None:
        """The node is there."""
        self.handle(contract.NodeAdded(node, total, labels, devices))

    def request(
        self,
        id: LeaseId,
        job: JobId,
        requester: ProcessId,
        shape: tuple[Amounts, bytes, str],
        name: str,
        holder: Connection | None,
    ) -> None:
        """A process (or, without `holder`, an actor) wants a worker."""
        wanted, more, environment = shape
        strategy, hints = pickle.loads(more)
        request = contract.LeaseRequest(id, job, requester, wanted, name, strategy, hints, holder is None, environment)
        self.leases[id] = LeaseRecord(request, holder)
        self.handle(contract.LeaseRequested(request))

    def cancel(self, id: LeaseId) -> None:
        """A waiting request is withdrawn."""
        record = self.leases.get(id)
        if record is None:
            return
        if record.grant is not None:
            self.release(id, broken=False)
            return
        del self.leases[id]
        self.handle(contract.LeaseCancelled(id))

    def release(self, id: LeaseId, broken: bool) -> None:
        """A lease is given back, or over."""
        record = self.leases.pop(id, None)
        if record is None:
            return
        self._drop_worker(id, record, broken)
        if record.grant is None:
            self.handle(contract.LeaseCancelled(id))
        else:
            self.handle(contract.LeaseReleased(id))

    def drop_worker(self, id: LeaseId) -> None:
        """The worker of a lease must not be used any more; its resources stay taken until `release`."""
        record = self.leases.get(id)
        if record is not None:
            self._drop_worker(id, record, True)

    def block(self, id: LeaseId, blocked: bool) -> None:
        """A lease's worker waits inside get, or runs on."""
        if id in self.leases:
            self.handle(contract.LeaseBlocked(id) if blocked else contract.LeaseUnblocked(id))

    def holder_left(self, connection: Connection) -> None:
        """A process is gone, and with it what it asked for and held."""
        for id in [id for id, record in self.leases.items() if record.holder is connection]:
            self.release(id, broken=True)

    @property
    def waiting(self) -> bool:
        """Whether any request waits."""
        return any(record.grant is None for record in self.leases.values())

    def explain(self, id: LeaseId) -> str:
        """Say why a request waits."""
        record = self.leases.get(id)
        if record is not None and record.grant is not None:
            return "its worker process is starting" if record.worker is None else "it has a worker"
        return self.scheduler.explain(id, self._clock()).text

    def tick(self) -> None:
        """Time passes."""
        self.handle(contract.Tick())

    def allocation(self, id: LeaseId | None) -> Allocation:
        """Return what a lease holds."""
        record = self.leases.get(id) if id is not None else None
        return record.grant.allocation if record is not None and record.grant is not None else Allocation({})


def grant_message(id: LeaseId, record: LeaseRecord, address: str) -> Message:
    """Return what the holder of a lease is told when it has its worker."""
    assert record.grant is not None and record.worker is not None
    allocation = record.grant.allocation
    return (op.LEASE_GRANTED, id, record.worker, address, allocation.amounts, allocation.devices)


def request_shape(wanted: Amounts, strategy: Any, hints: Any, environment: str) -> tuple[Amounts, bytes, str]:
    """Return a shape as `LeaseDesk.request` takes it."""
    return wanted, pickle.dumps((strategy, hints)), environment
