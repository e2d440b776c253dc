"""Answer what the session needs and what its nodes have, for an autoscaler; keep what programs ask for in advance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.gathering import Gathering
from kernel_processes.head.groups import GroupTable
from kernel_processes.head.job_service import JobService
from kernel_processes.head.lease_manager import LeaseManager, LeaseRecord
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol.pickled import Pickled
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import OptionError
from kernel_spec.ids import NodeId
from kernel_spec.labels import PROVIDER_ID_LABEL
from kernel_spec.resources import amounts, quantities

SHOWN_NAMES = 5
"""The number of functions and actors that are named for one shape."""


class DemandQueries:
    """Answers "demand", and keeps what "request_resources" asks for with the job that asks. Runs in the head's loop."""

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        gathering: Gathering,
        leases: LeaseManager,
        groups: GroupTable,
        jobs: JobService,
        reactor: Reactor,
    ) -> None:
        self._cluster = cluster
        self._gathering = gathering
        self._leases = leases
        self._groups = groups
        self._jobs = jobs
        self._reactor = reactor
        dispatcher.methods |= {"demand": self._demand, "request_resources": self._request}

    def _request(self, caller: ProcessRecord, bundles: list[Mapping[str, float]]) -> None:
        """Have the cluster be at least as large as these bundles need, for as long as the caller's program runs.

        Another call takes the place of the one before. Raises OptionError for a bundle that is none, and for a caller
        that belongs to no program.
        """
        if caller.job not in self._jobs.table.jobs:
            raise OptionError("only a program, and what runs for it, can ask for resources in advance")
        for bundle in bundles:
            try:
                amounts(bundle)
            except (TypeError, ValueError, AttributeError) as error:
                raise OptionError(f"{bundle!r} can't be asked for: {error}") from None
        self._jobs.ask_for(caller.job, bundles)

    def _demand(self, caller: ProcessRecord) -> Deferred:
        """Return what waits, what was asked for, and the nodes with what is free and for how long they were idle.

        Nodes that hold nothing are asked for objects that processes of other nodes own: those are in use as well.
        """
        now = self._reactor.clock()
        for process in self._cluster.callers.values():
            if process.role == "driver":
                self._leases.idle.used(process.node.id, now)
        idle = [node for node in self._cluster.working_nodes() if self._leases.idle.since(node.id) not in (None, now)]
        return self._gathering.of_nodes("needed_elsewhere", self._put_together, asked=idle)

    def _put_together(self, needed: dict[NodeId, int | None]) -> Pickled:
        now = self._reactor.clock()
        for node, count in needed.items():
            if count != 0:  # One that does not answer may have some.
                self._leases.idle.used(node, now)
        available = self._leases.scheduler.snapshot().available
        return Pickled.of(
            {
                "shapes": _shapes(record for record in self._leases.leases.values() if record.grant is None),
                "groups": self._waiting_groups(),
                "asked": [
                    {"job_id": job.id.hex(), "bundles": job.asked}
                    for job in self._jobs.table.jobs.values()
                    if job.asked and not job.ended
                ],
                "nodes": [
                    self._row(node, quantities(available.get(node.id, {})), now)
                    for node in self._cluster.working_nodes()
                ],
            }
        )

    def _waiting_groups(self) -> list[dict[str, Any]]:
        return [
            {
                "placement_group_id": record.id.hex(),
                "strategy": record.request.strategy,
                "bundles": {index: quantities(bundle) for index, bundle in enumerate(record.request.bundles)},
                "bundles_to_node_id": {index: bundle.node.hex() for index, bundle in sorted(record.bundles.items())},
                "labels": [dict(conditions) for conditions in record.request.labels],
            }
            for record in self._groups.groups.values()
            if record.state in ("PENDING", "RESCHEDULING")
        ]

    def _row(self, node: NodeRecord, available: Mapping[str, float], now: float) -> dict[str, Any]:
        since = self._leases.idle.since(node.id)
        return {
            "node_id": node.id.hex(),
            "provider_id": node.labels.get(PROVIDER_ID_LABEL, ""),
            "is_head": node.id == self._cluster.beside,
            "state": node.state,
            "total": dict(node.total),
            "available": dict(available),
            "labels": dict(node.labels),
            "idle_seconds": None if since is None or since == now else now - since,
        }


def _shapes(waiting: Iterable[LeaseRecord]) -> list[dict[str, Any]]:
    """Return a row for all requests outside of placement groups that want the same, in the same kind of place.

    `requests` have `backlog` tasks behind them that no lease was asked for yet, which are expected to take
    `backlog_seconds` together.
    """
    rows: dict[Any, dict[str, Any]] = {}
    for record in waiting:
        request = record.request
        if request.group is not None:
            continue  # Such a request waits for its group.
        key = (tuple(sorted(request.wanted.items())), repr(request.strategy), request.for_actor)
        row = rows.setdefault(
            key,
            {
                "wanted": quantities(request.wanted),
                "strategy": request.strategy,
                "for_actor": request.for_actor,
                "requests": 0,
                "backlog": 0,
                "backlog_seconds": 0.0,
                "names": [],
            },
        )
        row["requests"] += 1
        row["backlog"] += record.backlog
        row["backlog_seconds"] += record.backlog_seconds
        if request.name not in row["names"] and len(row["names"]) < SHOWN_NAMES:
            row["names"].append(request.name)
    return list(rows.values())
