"""What the head does for programs outside the cluster, each of which comes with an agent of its own (a *client*)."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from kernel.head.nodes import Node
from kernel.protocol import head_messages
from kernel.protocol.named_messages import packed
from kernel_spec.ids import NodeId

if TYPE_CHECKING:
    from kernel.head.head import Head

KEPT_GONE = 1000
"""So many clients that are gone are remembered: one that was given up must hear so when its network is back."""


class RemoteDrivers:
    """Remembers which clients are gone, and tells the node beside the head which gateways they may be relayed to."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self.fallen: dict[NodeId, str] = {}
        """Why clients are gone, those that went first at the beginning."""

    def restore(self) -> set[NodeId]:
        """Carry on after the death of a head; return the clients that must come back."""
        known = self._head.journal.clients()
        self.fallen = {id: cause for id, cause in known.items() if cause}
        return known.keys() - self.fallen.keys()

    def missing(self, nodes: Set[NodeId]) -> set[NodeId]:
        """Give up the clients among those that did not come back, and return them."""
        clients = nodes & self._head.journal.clients().keys()
        for id in clients:
            self._remember(id, "it did not come back when the head was started again")
        return clients

    def node_added(self, node: Node) -> None:
        """A node joined, or a client."""
        if node.client:
            self._head.journal.client(node.id)
            return
        for one in self._head.working_nodes() if node.id == self._head.config.node else [node]:
            self._tell(one, True)

    def node_removed(self, node: Node) -> None:
        """A node is gone, or a client."""
        if node.client:
            del self._head.nodes[node.id]
            self._remember(node.id, node.cause)
        else:
            self._tell(node, False)

    def _remember(self, id: NodeId, cause: str) -> None:
        self.fallen[id] = cause
        self._head.journal.client(id, cause)
        if len(self.fallen) > KEPT_GONE:
            oldest = next(iter(self.fallen))
            del self.fallen[oldest]
            self._head.journal.forget_client(oldest)

    def _tell(self, node: Node, there: bool) -> None:
        beside = self._head.nodes.get(NodeId(self._head.config.node))
        if beside is not None and beside.alive and node.address:
            beside.send(packed(head_messages.NodeReachable(place=node.address, there=there)))
