"""Connect a node with the others: objects go through the transfer service, messages through links between agents."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from kernel_network_tcp.agent_links import AgentLinks
from kernel_network_tcp.transfer.service import Ticket, TransferService
from kernel_network_tcp.transport.connect import open_socket
from kernel_network_tcp.transport.credentials import Credentials
from kernel_processes.transport.addresses import SCHEME, TRANSFER, through
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.networks import Message, NodeStore, Pulled

CONNECT_SECONDS = 5.0
_FETCHING = ProcessId(b"transfer")
"""The id by which the network uses the store."""


class TcpNodeLinks:
    """Implements `kernel_spec.networks.NodeLinks`. `place` is where this node is reached, `relay` leads to others."""

    def __init__(
        self,
        place: str,
        token: bytes,
        tls: Credentials | None,
        reactor: Reactor,
        store: NodeStore,
        agent_links: AgentLinks,
        relay: str = "",
    ) -> None:
        def dial(address: str) -> socket.socket:
            return open_socket(through(relay, address), token, CONNECT_SECONDS, tls)

        self.transfer = TransferService(reactor, store, _FETCHING, _address(place), dial)
        self._agent_links = agent_links

    def pull(
        self,
        object: ObjectId,
        size: int,
        owner: ProcessId,
        places: Sequence[str],
        then: Pulled,
        urgent: bool = True,
        keep: bool = False,
    ) -> Ticket:
        """Have an object in this node's store."""
        return self.transfer.pull(object, size, owner, list(map(_address, places)), then, urgent, keep)

    def forward(self, place: str, process: ProcessId, message: Message) -> None:
        """Have the agent at `place` hand a message to one of its processes."""
        self._agent_links.forward(place, process, message)

    def delete(self, place: str, objects: Sequence[ObjectId]) -> None:
        """Have the agent at `place` delete objects."""
        self._agent_links.delete(place, objects)

    def keep(self, place: str, object: ObjectId) -> None:
        """Have the agent at `place` keep its copy of an object."""
        self._agent_links.keep(place, object)

    def owner_left(self, owner: ProcessId) -> None:
        """Stop the pulls of objects whose owner, a process, has ended."""
        self.transfer.owner_left(owner)

    def node_left(self, place: str) -> None:
        """Close the link to a node that is gone."""
        self._agent_links.forget(place)

    def explain(self, object: ObjectId) -> str:
        """Say what a pull of the object waits for; "" when there is no such pull."""
        return self.transfer.explain(object)

    def flush(self) -> None:
        """Write what is queued."""
        self._agent_links.flush()

    def close(self) -> None:
        """Break off what is on its way. Comes before the store is closed."""
        self.transfer.close()
        self._agent_links.close()


def _address(place: str) -> str:
    return f"{SCHEME}{place}/{TRANSFER}"
