"""The service Nodes."""

from __future__ import annotations

from typing import Any

from kernel_control_grpc.errors import NotKnownError
from kernel_control_grpc.feeds import Close, EventFeed
from kernel_control_grpc.mailbox import Mailbox
from kernel_control_grpc.protocol import messages
from kernel_control_grpc.services.service import Service, page_of, parse_id
from kernel_spec.ids import NodeId
from kernel_spec.observers import NODE


class Nodes(Service):
    """The machines of a cluster."""

    def list(self, request: Any) -> Any:
        """Return a page of nodes."""
        rows = [row for row in self.rows("nodes") if row["Alive"] or not request.alive_only]
        page, token = page_of(rows, lambda row: row["NodeID"], request)
        return messages.ListNodesResponse(nodes=map(_message, page), next_page_token=token)

    def watch(self, request: Any, mailbox: Mailbox) -> Close:
        """Send each node that changes."""

        def changed(event: Any) -> None:
            for row in self.rows("nodes"):
                if row["NodeID"] == event.id:
                    node = _message(row)
                    mailbox.put(node, node.ByteSize())

        return EventFeed([NODE], changed).subscribe(self.head.observation)

    def drain(self, request: Any) -> Any:
        """Have a node leave."""
        self._living(request.id)
        self.ask("drain_node", request.id, request.seconds if request.HasField("seconds") else None)
        return messages.DrainNodeResponse()

    def set_resource(self, request: Any) -> Any:
        """Set a custom resource of a node."""
        self._living(request.node_id)
        self.ask("set_resource", request.name, request.quantity, request.node_id)
        return messages.SetResourceResponse()

    def _living(self, id: str) -> None:
        """Raise NotKnownError unless a node of this id lives."""
        node = self.head.cluster.nodes.get(NodeId(parse_id(id, "a node")))
        if node is None or not node.alive or node.client:
            there = ", ".join(node.id.hex() for node in self.head.cluster.working_nodes())
            raise NotKnownError(f"there is no living node {id!r}; the living nodes are {there}")


def _message(row: dict[str, Any]) -> Any:
    return messages.Node(
        id=row["NodeID"],
        state=messages.NodeState.get(f"NODE_STATE_{row['State']}", 0),
        host=row["NodeManagerHostname"],
        address=f"{row['NodeManagerAddress']}:{row['NodeManagerPort']}" if row["NodeManagerPort"] else "",
        agent_pid=row["AgentPid"],
        total=row["Resources"],
        available=row["Available"],
        labels=row["Labels"],
        cause=row["Cause"],
    )
