"""Answer `kernel status`, and list nodes and workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.gathering import Gathering
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.node_rows import node_rows
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.usage import memory_of, sum_of_amounts, sum_of_stores
from kernel_processes.protocol.pickled import Pickled
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import NodeId
from kernel_spec.resources import quantities

SHOWN_WAITING = 20
"""The number of waiting requests that `kernel status` shows."""


class StatusQueries:
    """Answers questions about the session as a whole. Runs in the head's loop.

    `sections` has what other parts of the head show: a name, and a function that returns plain values.
    """

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        leases: LeaseManager,
        gathering: Gathering,
        reactor: Reactor,
        sections: Mapping[str, Callable[[], Any]],
    ) -> None:
        self._cluster = cluster
        self._leases = leases
        self._gathering = gathering
        self._reactor = reactor
        self._sections = sections
        dispatcher.methods |= {
            "nodes": lambda caller: Pickled.of(self._node_rows()),
            "status": self._status,
            "workers": self._workers,
        }

    def _node_rows(self) -> list[dict[str, Any]]:
        return node_rows(self._cluster, self._leases.scheduler.snapshot().available, self._reactor.clock())

    def _status(self, caller: ProcessRecord) -> Deferred:
        """Return the data for `kernel status`."""

        def put_together(reports: dict[NodeId, Any]) -> Pickled:
            scheduler = self._leases.scheduler
            snapshot = scheduler.snapshot()
            working = self._gathering.from_working_nodes(reports)
            return Pickled.of(
                {
                    "node": caller.node.id.hex(),
                    "pid": caller.node.pid,
                    "scheduler": scheduler.name,
                    "total": sum_of_amounts(snapshot.total.values()),
                    "available": sum_of_amounts(snapshot.available.values()),
                    "waiting": [
                        {
                            "name": request.name,
                            "wanted": quantities(request.wanted),
                            "reason": self._leases.explain(request.id),
                        }
                        for request in list(snapshot.waiting)[:SHOWN_WAITING]
                    ],
                    "waiting_count": len(snapshot.waiting),
                    "nodes": self._node_rows(),
                    "silent_nodes": self._gathering.silent_nodes(reports),
                    "workers": _worker_rows(reports),
                    "store": sum_of_stores(working),
                    "memory": memory_of(working),
                    **{name: show() for name, show in self._sections.items()},
                }
            )

        return self._gathering.of_nodes("report", put_together, False)

    def _workers(self, caller: ProcessRecord) -> Deferred:
        """Return a row per worker, of the nodes that answer; `status` says which did not."""
        return self._gathering.of_nodes("report", lambda reports: Pickled.of(_worker_rows(reports)), False)


def _worker_rows(reports: Mapping[NodeId, Any]) -> list[dict[str, Any]]:
    return [row for report in reports.values() if report is not None for row in report["workers"]]
