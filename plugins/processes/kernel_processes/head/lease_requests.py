"""Check requests for workers, pass them to the lease manager, and tell their holders what becomes of them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Protocol

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.head.actor_records import ActorRecord
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.feasibility import why_infeasible
from kernel_processes.head.groups import GroupTable
from kernel_processes.head.job_service import JobService
from kernel_processes.head.lease_manager import LeaseManager, LeaseRecord, grant_message
from kernel_processes.head.nodes import ProcessRecord
from kernel_spec.errors import KernelError
from kernel_spec.ids import LeaseId, NodeId, ProcessId
from kernel_spec.placement import DEFAULT_STRATEGY, bundle_of
from kernel_spec.scheduling import NOWHERE, LeaseRequest


class LeaseRequests:
    """Passes requests of processes, and of actors, whose leases the head itself holds, to the lease manager.

    Requests that can never be served are found by the nodes of `cluster` and by `groups`. Runs in the head's loop.
    """

    def __init__(self, cluster: ClusterTable, groups: GroupTable, jobs: JobService, leases: LeaseManager) -> None:
        self._cluster = cluster
        self._groups = groups
        self._jobs = jobs
        self._leases = leases

    def of_process(self, caller: ProcessRecord, message: Message) -> LeaseRequest:
        """Return the request that a process sends."""
        _, id, (wanted, more, environment, preemptible), name, near = message
        return LeaseRequest(
            id,
            caller.job,
            caller.id,
            wanted,
            name,
            environment=self._jobs.environment_for(caller, pickle.loads(environment) if environment else None),
            origin=caller.node.id,
            locality=self._nodes_at(near) if near else {},
            preemptible=preemptible,
            **read_strategy(more),
        )

    def _nodes_at(self, near: Mapping[str, int]) -> dict[NodeId, int]:
        return {node.id: near[node.address] for node in self._cluster.working_nodes() if node.address in near}

    def of_actor(self, record: ActorRecord, lease: LeaseId) -> LeaseRequest:
        """Return the request for the worker of an actor, which comes from where its owner is."""
        said, owner = record.description, self._cluster.callers.get(record.owner)
        return LeaseRequest(
            lease,
            record.job,
            record.owner,
            said["wanted"],
            record.label,
            for_actor=True,
            environment=said["environment_key"],
            origin=owner.node.id if owner is not None else NOWHERE,
            **read_strategy(said["placing"]),
        )

    def ask(self, request: LeaseRequest, holder: ProcessRecord | None) -> KernelError | None:
        """Ask the scheduler for a worker, unless there will never be one: then return why. An actor has no `holder`."""
        error = self._refusal(request)
        if error is None:
            self._leases.request(request, holder)
        return error

    def hopeless(self) -> list[tuple[LeaseRecord, KernelError]]:
        """Return the waiting requests that can never be served, such as those for a node that is gone, and why not."""
        waiting = [record for record in self._leases.leases.values() if record.grant is None]
        found = [(record, self._refusal(record.request)) for record in waiting]
        return [(record, error) for record, error in found if error is not None]

    def _refusal(self, request: LeaseRequest) -> KernelError | None:
        return why_infeasible(request, self._groups.groups, self._cluster.why_unusable)


def read_strategy(more: bytes) -> dict[str, Any]:
    """Return what a process said of strategy and hints (pickled) as the fields of a `LeaseRequest`.

    Raises ValueError for an invalid number of a bundle.
    """
    strategy, hints = pickle.loads(more)
    strategy = strategy or DEFAULT_STRATEGY
    group, bundle = bundle_of(strategy) or (None, -1)
    return {"strategy": strategy, "hints": hints, "group": group, "bundle": bundle}


class ActorLeases(Protocol):
    """Is told what becomes of the leases of actors."""

    def lease_served(self, lease: LeaseId, worker: ProcessId) -> None:
        """The lease has its worker."""

    def lease_refused(self, lease: LeaseId, error: KernelError) -> None:
        """There will be no worker for the lease."""

    def place_lost(self, lease: LeaseId, reason: str) -> None:
        """The placement group that the lease is in is gone."""

    def worker_died(self, worker: ProcessId, cause: str, fault: int) -> None:
        """A worker ended, which may have been an actor's; `fault` says what that means (see `process_messages`)."""


class LeaseHolders:
    """Tells the holders of leases what becomes of these: processes by a message, `actors` by a call.

    Runs in the head's loop.
    """

    def __init__(self, cluster: ClusterTable, leases: LeaseManager, actors: ActorLeases) -> None:
        self._cluster = cluster
        self._leases = leases
        self._actors = actors

    def served(self, lease: LeaseId, record: LeaseRecord) -> None:
        """Tell the holder of a lease which worker serves it, if that is known; not before all are that hold leases."""
        if record.worker is None or self._cluster.recovering:
            return
        if record.holder is None:
            self._actors.lease_served(lease, record.worker)
        else:  # A worker that is gone can't be reached; its holder will report that.
            worker = self._cluster.callers.get(record.worker)
            record.holder.send(grant_message(lease, record, worker.address if worker is not None else ""))

    def refuse(self, request: LeaseRequest, holder: ProcessRecord | None, error: KernelError) -> None:
        """Say that there will be no worker for a request, and forget that."""
        if holder is not None:
            holder.send(packed(op.LeaseFailed(lease=request.id, error=pickle.dumps(error))))
        else:
            self._actors.lease_refused(request.id, error)
        self._leases.release(request.id, broken=False)

    def place_lost(self, lease: LeaseId, reason: str) -> None:
        """The placement group that an actor's lease is in is gone."""
        self._actors.place_lost(lease, reason)

    def worker_died(self, worker: ProcessId, cause: str, fault: int) -> None:
        """A worker ended, and with it the lease that it served, or the actor that it was."""
        self._leases.worker_died(worker, cause, fault)
        self._actors.worker_died(worker, cause, fault)

    def worker_lost(self, worker: ProcessId, cause: str) -> None:
        """A worker is gone with its node."""
        self._leases.worker_died(worker, cause, op.LOST)
        self._actors.worker_died(worker, cause, op.DIED)
