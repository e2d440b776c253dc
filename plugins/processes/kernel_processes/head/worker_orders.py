"""Send nodes the head's orders about workers: find one for a lease, drop it, end it, send it a message."""

from __future__ import annotations

import pickle

from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.job_service import JobService
from kernel_processes.head.lease_manager import LeaseRecord
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.protocol import head_messages
from kernel_spec.ids import LeaseId, ProcessId
from kernel_spec.resources import MEMORY, OBJECT_STORE_MEMORY, Allocation, from_units


class WorkerOrders:
    """Sends orders to the nodes' agents. Runs in the head's loop.

    `lasting` says whether another head may take over: then nodes keep the description of each lease, to report it.
    """

    def __init__(self, dispatcher: MessageDispatcher, cluster: ClusterTable, jobs: JobService, lasting: bool) -> None:
        self._nodes = cluster.nodes
        self._callers = cluster.callers
        self._jobs = jobs
        self._lasting = lasting
        dispatcher.methods["kill_worker"] = lambda caller, worker, reason: self.kill(worker, reason)

    def find(self, lease: LeaseId, record: LeaseRecord) -> None:
        """Let the node of a grant find a worker for the lease."""
        assert record.grant is not None
        jobs, request = self._jobs, record.request
        node = self._nodes[record.grant.node]
        if request.job not in node.known:
            node.known.add(request.job)
            surroundings = pickle.dumps(jobs.table.get(request.job).surroundings())
            node.send(packed(head_messages.DescribeJob(job=request.job, surroundings=surroundings)))
        if request.environment and request.environment not in node.known:
            node.known.add(request.environment)
            description = pickle.dumps(jobs.environments.description(request.environment))
            node.send(packed(head_messages.DescribeEnvironment(key=request.environment, description=description)))
        held = pickle.dumps((request, record.grant, record.grants)) if self._lasting else b""
        reserved = (int(from_units(request.wanted.get(name, 0))) for name in (MEMORY, OBJECT_STORE_MEMORY))
        devices = describe_devices(record.grant.allocation)
        work = (request.name, request.requester, *reserved, request.preemptible, record.grants, devices)
        node.send((head_messages.FIND_WORKER, lease, request.job, request.environment, work, held))

    def drop(self, lease: LeaseId, record: LeaseRecord, broken: bool) -> None:
        """Let the node of a lease take its worker back; a `broken` one is not used again."""
        if record.grant is not None:
            holder_lives = record.holder is not None and not record.holder.closed
            self._nodes[record.grant.node].send((head_messages.DROP_WORKER, lease, broken, holder_lives))

    def kill(self, worker: ProcessId, reason: str) -> None:
        """End a worker at once."""
        found = self._callers.get(worker)
        if found is not None:
            found.node.send(packed(head_messages.KillWorker(worker=worker, reason=reason)))

    def tell(self, worker: ProcessId, message: Message) -> None:
        """Queue a message to a worker, if it is there."""
        found = self._callers.get(worker)
        if found is not None:
            found.send(message)

    def tell_node_of(self, worker: ProcessId, message: Message) -> None:
        """Queue a message to the agent of a worker's node, if the worker is there."""
        found = self._callers.get(worker)
        if found is not None:
            found.node.send(message)


def describe_devices(allocation: Allocation) -> str:
    """Return which devices an allocation holds: equal texts mean the same ones, "" none."""
    return " ".join(
        f"{name}:{index}" for name in sorted(allocation.devices) for index in sorted(allocation.devices[name])
    )
