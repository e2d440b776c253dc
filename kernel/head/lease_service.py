"""Leases on the head: carries out what the lease manager decides, and hears from the nodes what became of it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from kernel.head.lease_manager import LeaseManager, LeaseRecord, grant_message
from kernel.head.nodes import Caller, Node
from kernel.protocol import head_messages
from kernel.protocol import process_messages as op
from kernel.protocol.memory_faults import FAULTS
from kernel.protocol.named_messages import packed
from kernel.transport.connection import Message
from kernel_spec import observers
from kernel_spec.ids import LeaseId, ProcessId
from kernel_spec.resources import MEMORY, OBJECT_STORE_MEMORY, Allocation, from_units

if TYPE_CHECKING:
    from kernel.head.head import Head

GRACE_SECONDS = 2.0
"""How long the resources of a broken lease stay taken, unless its worker is known to be gone sooner."""


class LeaseService:
    """The shell around the lease manager. Runs in the head's loop."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self.lease_manager = LeaseManager(
            head.manager.make("scheduler"),
            head.reactor.clock,
            self._find_worker,
            self._drop_worker,
            self.kill_worker,
            head.end,
        )
        self.lease_manager.tell_worker = self._tell_worker
        head.handlers |= {
            op.CANCEL_LEASE: lambda caller, message: self.lease_manager.cancel(message[1]),
            op.RETURN_LEASE: self._on_return,
        }
        head.methods["kill_worker"] = lambda caller, worker, reason: self.kill_worker(worker, reason)
        head.words |= {
            head_messages.WORKER_FOUND: self._worker_found,
            head_messages.LEASE_BLOCKED: lambda node, lease, blocked, asks=False: self.lease_manager.block(
                lease, blocked, asks
            ),
        }
        head.on(head_messages.LeaseUnserved, self._unserved)
        head.on(head_messages.WorkerDied, self._worker_died)

    def kill_worker(self, worker: ProcessId, reason: str) -> None:
        """End a worker at once."""
        found = self._head.callers.get(worker)
        if found is not None:
            found.node.send(packed(head_messages.KillWorker(worker=worker, reason=reason)))

    # -- what it decides ------------------------------------------------------------------------------------------

    def _tell_worker(self, worker: ProcessId, message: Message) -> None:
        found = self._head.callers.get(worker)
        if found is not None:
            found.send(message)

    def _find_worker(self, lease: LeaseId, record: LeaseRecord) -> None:
        assert record.grant is not None
        head, request = self._head, record.request
        node = head.nodes[record.grant.node]
        if request.job not in node.known:
            node.known.add(request.job)
            surroundings = pickle.dumps(head.jobs.get(request.job).surroundings())
            node.send(packed(head_messages.DescribeJob(job=request.job, surroundings=surroundings)))
        if request.environment and request.environment not in node.known:
            node.known.add(request.environment)
            description = pickle.dumps(head.environments.description(request.environment))
            node.send(packed(head_messages.DescribeEnvironment(key=request.environment, description=description)))
        held = pickle.dumps((request, record.grant, record.grants)) if head.journal.durable else b""
        reserved = (int(from_units(request.wanted.get(name, 0))) for name in (MEMORY, OBJECT_STORE_MEMORY))
        devices = describe_devices(record.grant.allocation)
        work = (request.name, request.requester, *reserved, request.preemptible, record.grants, devices)
        node.send((head_messages.FIND_WORKER, lease, request.job, request.environment, work, held))

    def _drop_worker(self, lease: LeaseId, record: LeaseRecord, broken: bool) -> None:
        if record.grant is not None:
            holder_lives = record.holder is not None and not record.holder.closed
            self._head.nodes[record.grant.node].send((head_messages.DROP_WORKER, lease, broken, holder_lives))

    # -- what nodes and processes say ------------------------------------------------------------------------------

    def _on_return(self, caller: Caller, message: Message) -> None:
        """Take a lease back. What an unusable worker held (a device's memory, too) is free when its process is gone."""
        _, id, broken, worker = message
        if not broken:
            self.lease_manager.release(id, broken=False)
        elif id in self.lease_manager.leases:
            self.lease_manager.drop_worker(id)
            self._head.reactor.call_later(GRACE_SECONDS, lambda: self.lease_manager.release(id, broken=True))
        else:  # it was told so, or an earlier head was to tell it
            caller.send(
                packed(
                    op.LeasedWorkerDied(
                        worker=worker, cause="how is not known, as the head was started again", fault=op.LOST
                    )
                )
            )

    def _worker_found(self, node: Node, lease: LeaseId, grant: int, worker: ProcessId) -> None:
        record = self.lease_manager.served(lease, grant, worker)
        if record is not None and not self._head.recovery.active:
            self.tell_of_worker(lease, record)

    def tell_of_worker(self, lease: LeaseId, record: LeaseRecord) -> None:
        """Tell the holder of a lease which worker serves it, if that is known."""
        if record.worker is None:
            return
        if record.holder is None:
            self._head.actors.lease_served(lease, record)
        else:  # one that is gone already can't be reached, which its holder will say
            caller = self._head.callers.get(record.worker)
            record.holder.send(grant_message(lease, record, caller.address if caller is not None else ""))

    def _unserved(self, node: Node, said: head_messages.LeaseUnserved) -> None:
        record = self.lease_manager.granted(said.lease, said.grant)
        if record is not None:
            self._head.requests.refuse(record.request, record.holder, pickle.loads(said.error))

    def _worker_died(self, node: Node, said: head_messages.WorkerDied) -> None:
        detail = {"pid": said.pid, "cause": said.cause, "fault": FAULTS.get(said.fault, "")}
        self._head.observe(observers.WORKER, observers.DEAD, said.worker, detail)
        self.lease_manager.worker_died(said.worker, said.cause, said.fault)
        self._head.actors.worker_died(said.worker, said.cause, said.fault)


def describe_devices(allocation: Allocation) -> str:
    """Return which devices an allocation holds: equal texts mean the same ones, "" none."""
    return " ".join(
        f"{name}:{index}" for name in sorted(allocation.devices) for index in sorted(allocation.devices[name])
    )
