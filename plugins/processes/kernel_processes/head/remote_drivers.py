"""Keep track of programs outside the cluster; each has an agent of its own (a *client*)."""

from __future__ import annotations

from collections.abc import Set

from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.journal import Journal
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.protocol import head_messages
from kernel_spec.ids import NodeId

KEPT_GONE = 1000
"""Number of lost clients that are remembered: one that was given up is refused when its network is back."""


class RemoteDrivers:
    """Remembers lost clients, and sends the gateways that clients may be relayed to, to the node beside the head."""

    def __init__(self, cluster: ClusterTable, journal: Journal) -> None:
        self._cluster = cluster
        self._journal = journal

    def restore(self) -> set[NodeId]:
        """Carry on after the death of a head; return the clients that must come back."""
        known = self._journal.clients()
        self._cluster.fallen_clients = {id: cause for id, cause in known.items() if cause}
        return known.keys() - self._cluster.fallen_clients.keys()

    def missing(self, nodes: Set[NodeId]) -> set[NodeId]:
        """Give up the clients among those that did not come back, and return them."""
        clients = nodes & self._journal.clients().keys()
        for id in clients:
            self._remember(id, "it did not come back when the head was started again")
        return clients

    def node_added(self, node: NodeRecord) -> None:
        """A node joined, or a client."""
        if node.client:
            self._journal.client(node.id)
            return
        for one in self._cluster.working_nodes() if node.id == self._cluster.beside else [node]:
            self._tell(one, True)

    def node_removed(self, node: NodeRecord) -> None:
        """A node is gone, or a client."""
        if node.client:
            del self._cluster.nodes[node.id]
            self._remember(node.id, node.cause)
        else:
            self._tell(node, False)

    def _remember(self, id: NodeId, cause: str) -> None:
        fallen = self._cluster.fallen_clients
        fallen[id] = cause
        self._journal.client(id, cause)
        if len(fallen) > KEPT_GONE:
            oldest = next(iter(fallen))
            del fallen[oldest]
            self._journal.forget_client(oldest)

    def _tell(self, node: NodeRecord, there: bool) -> None:
        beside = self._cluster.nodes.get(self._cluster.beside)
        if beside is not None and beside.alive and node.address:
            beside.send(packed(head_messages.NodeReachable(place=node.address, there=there)))
