"""Answer questions about the resources of nodes, totals and what is free, and change custom ones."""

from __future__ import annotations

from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.usage import sum_of_amounts
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.errors import OptionError
from kernel_spec.scheduling import ResourceChanged


class ResourceService:
    """Answers questions about resources from the scheduler's state. Runs in the head's loop."""

    def __init__(self, dispatcher: MessageDispatcher, cluster: ClusterTable, leases: LeaseManager) -> None:
        self._cluster = cluster
        self._leases = leases
        dispatcher.methods |= {
            "cluster_resources": lambda caller: Pickled.of(self._total()),
            "available_resources": lambda caller: Pickled.of(self._available()),
            "set_resource": self._set,
        }

    def _total(self) -> dict[str, float]:
        return sum_of_amounts(self._leases.scheduler.snapshot().total.values())

    def _available(self) -> dict[str, float]:
        """Return what is free; a resource of which nothing is free stays in the answer, as zero."""
        snapshot = self._leases.scheduler.snapshot()
        free = sum_of_amounts(snapshot.available.values())
        return {name: max(0.0, free.get(name, 0.0)) for name in sum_of_amounts(snapshot.total.values())}

    def _set(self, caller: ProcessRecord, name: str, quantity: float, node_id: str = "") -> None:
        """Create, change or (with 0) delete a custom resource of a node, the caller's own if none is named."""
        if quantity < 0:
            raise OptionError(f"the capacity of resource {name!r} must be zero or more, not {quantity}")
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise OptionError(f"{name} is fixed when the node starts; only custom resources can be set at run time")
        node = self._cluster.node_named(node_id) if node_id else caller.node
        if node.client:
            raise OptionError("a remote driver has no node of its own whose resources it could set: say node_id=...")
        if quantity:
            node.total[name] = quantity
        else:
            node.total.pop(name, None)
        node.send(packed(head_messages.SetResource(name=name, quantity=quantity)))
        self._leases.handle(ResourceChanged(node.id, name, quantity))
