"""Answer what the session needs and what its nodes have, for an autoscaler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.gathering import Gathering
from kernel_processes.head.lease_manager import LeaseManager, LeaseRecord
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.ids import NodeId
from kernel_spec.labels import PROVIDER_ID_LABEL
from kernel_spec.resources import quantities

SHOWN_NAMES = 5
"""The number of functions and actors that are named for one shape."""


class DemandQueries:
    """Answers "demand". Runs in the head's loop.

    `sections` are further entries of the answer: name to what returns it.
    """

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        gathering: Gathering,
        leases: LeaseManager,
        clock: Callable[[], float],
        sections: Mapping[str, Callable[[], Any]],
    ) -> None:
        self._cluster = cluster
        self._gathering = gathering
        self._leases = leases
        self._clock = clock
        self._sections = sections
        dispatcher.methods["demand"] = self._demand

    def _demand(self, caller: ProcessRecord) -> Deferred:
        """Return what waits, and the nodes with what is free and for how long they were idle.

        Nodes that hold nothing are asked for objects that processes of other nodes own: those are in use as well.
        """
        now = self._clock()
        for process in self._cluster.callers.values():
            if process.role == "driver":
                self._leases.idle.used(process.node.id, now)
        idle = [node for node in self._cluster.working_nodes() if self._leases.idle.since(node.id) not in (None, now)]
        return self._gathering.of_nodes("needed_elsewhere", self._put_together, asked=idle)

    def _put_together(self, needed: dict[NodeId, int | None]) -> Pickled:
        now = self._clock()
        for node, count in needed.items():
            if count != 0:  # One that does not answer may have some.
                self._leases.idle.used(node, now)
        available = self._leases.scheduler.snapshot().available
        return Pickled.of(
            {
                "shapes": _shapes(record for record in self._leases.leases.values() if record.grant is None),
                "nodes": [
                    self._row(node, quantities(available.get(node.id, {})), now)
                    for node in self._cluster.working_nodes()
                ],
                **{name: section() for name, section in self._sections.items()},
            }
        )

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
