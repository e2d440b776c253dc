"""Requests for workers: read and checked, refused if they can never be served, else given to the lease manager."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernel.head.feasibility import why_infeasible
from kernel.head.nodes import Caller
from kernel.protocol import process_messages as op
from kernel.protocol.named_messages import packed
from kernel.transport.connection import Message
from kernel_spec.errors import KernelError
from kernel_spec.ids import NodeId
from kernel_spec.placement import DEFAULT_STRATEGY, bundle_of
from kernel_spec.scheduling import LeaseRequest

if TYPE_CHECKING:
    from kernel.head.head import Head


class LeaseRequests:
    """The way to the lease manager, for processes and (without a holder) for actors. Runs in the head's loop."""

    def __init__(self, head: Head) -> None:
        self._head = head
        head.handlers[op.REQUEST_LEASE] = self._on_request

    def _on_request(self, caller: Caller, message: Message) -> None:
        _, id, (wanted, more, environment, preemptible), name, near = message
        request = LeaseRequest(
            id,
            caller.job,
            caller.id,
            wanted,
            name,
            environment=self.environment_for(caller, pickle.loads(environment) if environment else None),
            origin=caller.node.id,
            locality=self._nodes_at(near) if near else {},
            preemptible=preemptible,
            **read_strategy(more),
        )
        self.ask(request, caller)

    def _nodes_at(self, near: Mapping[str, int]) -> dict[NodeId, int]:
        return {node.id: near[node.address] for node in self._head.working_nodes() if node.address in near}

    def ask(self, request: LeaseRequest, holder: Caller | None) -> None:
        """Ask the scheduler for a worker, unless there will never be one."""
        known = self._head.lease_manager.leases.get(request.id)
        if known is not None:  # an earlier head granted it, and died before its holder had heard so
            self._head.leases.tell_of_worker(request.id, known)
            return
        error = self._refusal(request)
        if error is None:
            self._head.lease_manager.request(request, holder)
        else:
            self.refuse(request, holder, error)

    def refuse(self, request: LeaseRequest, holder: Caller | None, error: KernelError) -> None:
        """Say that there will be no worker for a request, and forget that."""
        data = pickle.dumps(error)
        if holder is not None:
            holder.send(packed(op.LeaseFailed(lease=request.id, error=data)))
        else:
            actors = self._head.actors
            actors.carry_out(actors.table.lease_failed(request.id, (op.SYSTEM_ERROR, data), str(error)))
        self._head.lease_manager.release(request.id, broken=False)

    def refuse_the_hopeless(self) -> None:
        """A node is gone: say so to those who wait for that one and no other."""
        for record in [record for record in self._head.lease_manager.leases.values() if record.grant is None]:
            error = self._refusal(record.request)
            if error is not None:
                self.refuse(record.request, record.holder, error)

    def _refusal(self, request: LeaseRequest) -> KernelError | None:
        return why_infeasible(request, self._head.groups.table.groups, self._why_gone)

    def _why_gone(self, id: NodeId) -> str:
        head = self._head
        cause = head.why_fallen(id)
        if cause:
            return f"that is gone: {cause}"
        node = head.nodes.get(id)
        if node is not None and node.client:
            return "that is a remote driver's, where nothing runs"
        return "" if node is not None or head.recovery.active else "there never was such a node"

    def environment_for(self, caller: Caller, asked: Mapping[str, Any] | None) -> str:
        """Return the key of what a process asks for: what that adds to its own environment."""
        own = self._head.jobs.get(caller.job).environment if caller.role == "driver" else caller.environment
        return self._head.environments.key_within(own, asked)


def read_strategy(more: bytes) -> dict[str, Any]:
    """Return what a process said of strategy and hints (pickled) as the fields of a `LeaseRequest`.

    Raises ValueError for a bundle of a placement group that is none.
    """
    strategy, hints = pickle.loads(more)
    strategy = strategy or DEFAULT_STRATEGY
    group, bundle = bundle_of(strategy) or (None, -1)
    return {"strategy": strategy, "hints": hints, "group": group, "bundle": bundle}
