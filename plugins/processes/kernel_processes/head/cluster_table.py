"""The nodes of a session and the processes on them, and the questions that the head asks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_engine.messages.named_messages import packed
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.detached_jobs import DETACHED
from kernel_processes.protocol.pending_requests import PendingRequests
from kernel_spec.errors import OptionError
from kernel_spec.ids import JobId, NodeId, ProcessId


class ClusterTable:
    """Holds every node and every process that the head knows. Used in the head's loop alone.

    `beside` is the node beside the head. The numbers of requests count from `first_request`, which a head that takes
    over sets to another value than the one before it.
    """

    def __init__(self, beside: NodeId, first_request: int = 0) -> None:
        self.beside = beside
        self.nodes: dict[NodeId, NodeRecord] = {}
        self.callers: dict[ProcessId, ProcessRecord] = {}
        self.fallen: dict[NodeId, str] = {}
        """Why nodes were declared dead by the heads before this one."""
        self.fallen_clients: dict[NodeId, str] = {}
        """The reasons why remote drivers are gone, oldest first."""
        self.recovering = False
        """Whether the head still waits for nodes that an earlier head knew."""
        self._pending: PendingRequests[NodeId] = PendingRequests(first_request)

    # -- which there are -------------------------------------------------------------------------------------------

    def living_nodes(self) -> list[NodeRecord]:
        """Return the living nodes, including those of remote drivers."""
        return [node for node in self.nodes.values() if node.alive]

    def working_nodes(self) -> list[NodeRecord]:
        """Return the living nodes that run tasks."""
        return [node for node in self.living_nodes() if not node.client]

    def node_named(self, id: str) -> NodeRecord:
        """Return the living node with this id (hexadecimal). Raises OptionError when there is none."""
        for node in self.working_nodes():
            if node.id.hex() == id:
                return node
        there = ", ".join(node.id.hex() for node in self.working_nodes())
        raise OptionError(f"there is no living node {id!r}; the living nodes are {there}")

    def user_processes(self) -> list[ProcessRecord]:
        """Return every process that runs user code; tools, which only ask, are left out."""
        return [caller for caller in self.callers.values() if caller.role in ("driver", "worker")]

    def nodes_of_drivers(self, job: JobId) -> list[NodeRecord]:
        """Return the nodes of the drivers that `job` concerns: all drivers, if it is one of detached actors."""
        detached = job.startswith(DETACHED)
        drivers = [one for one in self.callers.values() if one.role == "driver" and (detached or one.job == job)]
        return list({id(driver.node): driver.node for driver in drivers}.values())

    def why_fallen(self, id: NodeId) -> str:
        """Return why a node was declared dead, by this head or one before it; nothing if it was not."""
        node = self.nodes.get(id)
        if node is not None and not node.alive:
            return node.cause
        return self.fallen.get(id) or self.fallen_clients.get(id, "")

    def why_unusable(self, id: NodeId) -> str:
        """Return why nothing will ever run on a node; nothing if something may, or if that is not known yet."""
        cause = self.why_fallen(id)
        if cause:
            return f"that is gone: {cause}"
        node = self.nodes.get(id)
        if node is not None and node.client:
            return "that is a remote driver's, where nothing runs"
        return "" if node is not None or self.recovering else "there never was such a node"

    # -- what the head asks of them --------------------------------------------------------------------------------

    def ask(self, caller: ProcessRecord, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask a process something; `then(answer)` is called from the loop, with None when it can't answer."""
        number = self._pending.begin(caller.node.id, then)
        caller.node.send(
            packed(head_messages.AskProcess(number=number, process=caller.id, method=method, arguments=arguments))
        )

    def ask_node(self, node: NodeRecord, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        """Ask an agent something; `then(answer)` is called from the loop, with None when it can't answer."""
        node.send(
            packed(head_messages.AskNode(number=self._pending.begin(node.id, then), method=method, arguments=arguments))
        )

    def answered(self, node: NodeRecord, said: head_messages.AskAnswered) -> None:
        """A process or an agent has answered."""
        self._pending.answered(said.number, said.value)

    def lost(self, node: NodeRecord) -> None:
        """A node is gone: nothing of what was asked of it will be answered."""
        self._pending.lost(node.id)
