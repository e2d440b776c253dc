"""Requests for workers: read and checked, refused if they can never be served, else given to the lease manager."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.feasibility import why_infeasible
from kernel_processes.head.groups import GroupTable
from kernel_processes.head.job_service import JobService
from kernel_processes.head.lease_answers import LeaseAnswers
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_spec.errors import KernelError
from kernel_spec.ids import NodeId
from kernel_spec.placement import DEFAULT_STRATEGY, bundle_of
from kernel_spec.scheduling import LeaseRequest


class LeaseRequests:
    """The way to the lease manager, for processes and (without a holder) for actors. Runs in the head's loop.

    What can never be served is found out by the nodes of `cluster` and by `groups`.
    """

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        groups: GroupTable,
        jobs: JobService,
        leases: LeaseManager,
        answers: LeaseAnswers,
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._jobs = jobs
        self._leases = leases
        self._answers = answers
        dispatcher.handlers[op.REQUEST_LEASE] = self._on_request

    def _on_request(self, caller: ProcessRecord, message: Message) -> None:
        _, id, (wanted, more, environment, preemptible), name, near = message
        request = LeaseRequest(
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
        self.ask(request, caller)

    def _nodes_at(self, near: Mapping[str, int]) -> dict[NodeId, int]:
        return {node.id: near[node.address] for node in self._cluster.working_nodes() if node.address in near}

    def ask(self, request: LeaseRequest, holder: ProcessRecord | None) -> None:
        """Ask the scheduler for a worker, unless there will never be one."""
        known = self._leases.leases.get(request.id)
        if known is not None:  # an earlier head granted it, and died before its holder had heard so
            self._answers.served(request.id, known)
            return
        error = self._refusal(request)
        if error is None:
            self._leases.request(request, holder)
        else:
            self._answers.refuse(request, holder, error)

    def refuse_the_hopeless(self) -> None:
        """Refuse the waiting requests that can never be served: those for a node that is gone, and for no other."""
        for record in [record for record in self._leases.leases.values() if record.grant is None]:
            error = self._refusal(record.request)
            if error is not None:
                self._answers.refuse(record.request, record.holder, error)

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
