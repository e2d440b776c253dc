"""Answer requests for leases: with the worker that serves it, or with the reason why no worker ever will."""

from __future__ import annotations

import pickle
from typing import Protocol

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.lease_manager import LeaseManager, LeaseRecord, grant_message
from kernel_processes.head.nodes import ProcessRecord
from kernel_spec.errors import KernelError
from kernel_spec.ids import LeaseId, ProcessId
from kernel_spec.scheduling import LeaseRequest


class ActorLeases(Protocol):
    """Receive the answers for actors, whose leases the head itself holds."""

    def lease_served(self, lease: LeaseId, worker: ProcessId) -> None:
        """An actor's lease has its worker."""

    def lease_refused(self, lease: LeaseId, failure: tuple[int, bytes], cause: str) -> None:
        """There will be no worker for an actor's lease: `failure` is what its callers get, `cause` says why."""


class LeaseAnswers:
    """Answers holders: processes by a message, `actors` by a call. Runs in the head's loop."""

    actors: ActorLeases
    """Made after this, and set by itself."""

    def __init__(self, cluster: ClusterTable, leases: LeaseManager) -> None:
        self._callers = cluster.callers
        self._leases = leases

    def served(self, lease: LeaseId, record: LeaseRecord) -> None:
        """Tell the holder of a lease which worker serves it, if that is known."""
        if record.worker is None:
            return
        if record.holder is None:
            self.actors.lease_served(lease, record.worker)
        else:  # one that is gone already can't be reached, which its holder will say
            caller = self._callers.get(record.worker)
            record.holder.send(grant_message(lease, record, caller.address if caller is not None else ""))

    def refuse(self, request: LeaseRequest, holder: ProcessRecord | None, error: KernelError) -> None:
        """Say that there will be no worker for a request, and forget that."""
        data = pickle.dumps(error)
        if holder is not None:
            holder.send(packed(op.LeaseFailed(lease=request.id, error=data)))
        else:
            self.actors.lease_refused(request.id, (op.SYSTEM_ERROR, data), str(error))
        self._leases.release(request.id, broken=False)
