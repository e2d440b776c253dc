"""Answer questions about the one node: its row, its resources, and those that are free."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

from kernel_local_mode.answers.facts import SessionFacts
from kernel_local_mode.resources import ADDRESS, LocalResources
from kernel_spec.errors import OptionError
from kernel_spec.resources import amounts, from_units, quantities
from kernel_spec.version import __version__


class NodeAnswers:
    """Answers questions about the pool of the node, and changes it, under `lock`."""

    def __init__(self, facts: SessionFacts, lock: threading.RLock, resources: LocalResources) -> None:
        self._facts = facts
        self._lock = lock
        self._resources = resources

    def nodes(self) -> list[dict[str, Any]]:
        """Return the one node."""
        return [
            {
                "NodeID": self._facts.node.hex(),
                "Alive": True,
                "State": "ALIVE",
                "IsHead": True,
                "NodeManagerAddress": ADDRESS,
                "NodeManagerHostname": socket.gethostname(),
                "NodeManagerPort": 0,
                "ObjectManagerPort": 0,
                "ObjectStoreSocketName": "",
                "RayletSocketName": "",
                "Resources": quantities(self._resources.pool.total),
                "Available": self.available_resources(),
                "Labels": dict(self._facts.labels),
                "Version": __version__,
                "HeardSecondsAgo": 0.0,
                "alive": True,
                "AgentPid": os.getpid(),
                "Cause": "",
            }
        ]

    def cluster_resources(self) -> dict[str, float]:
        """Return the totals."""
        with self._lock:
            return quantities(self._resources.pool.total)

    def available_resources(self) -> dict[str, float]:
        """Return what is free; a resource of which nothing is free stays in the answer, as zero."""
        with self._lock:
            pool = self._resources.pool
            return {name: from_units(max(0, pool.available.get(name, 0))) for name in pool.total}

    def set_resource(self, name: str, quantity: float, node_id: str = "") -> None:
        """Set the total of a custom resource; 0 deletes it. Raises OptionError for another node or a built-in one."""
        self._check_node(node_id)
        if quantity < 0:
            raise OptionError(f"the capacity of resource {name!r} must be zero or more, not {quantity}")
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise OptionError(f"{name} is fixed when the node starts; only custom resources can be set at run time")
        with self._lock:
            self._resources.pool.set_total(name, quantity)
            self._resources.try_again()

    def drain_node(self, node_id: str, seconds: float | None) -> None:
        """Raise OptionError: the one node is this process, which can't leave."""
        self._check_node(node_id)
        raise OptionError(f"node {node_id} is this process (local mode), the only node; shutdown() ends it")

    def demand(self) -> dict[str, Any]:
        """Return that nothing waits, as every call runs at once, and the one node."""
        (row,) = self.nodes()
        node = {
            "node_id": row["NodeID"],
            "provider_id": "",
            "is_head": True,
            "state": "ALIVE",
            "total": row["Resources"],
            "available": row["Available"],
            "labels": row["Labels"],
            "idle_seconds": None,
        }
        return {"shapes": [], "groups": [], "asked": [], "nodes": [node]}

    def wait_for_demand(self, known: int, seconds: float) -> int:
        """Return 0, the number of needs that can't be met at once; if that is `known`, after `seconds`."""
        if known == 0:
            time.sleep(min(seconds, 60.0))
        return 0

    def request_resources(self, bundles: list[dict[str, float]]) -> None:
        """Do nothing, as this node can't grow. Raises OptionError for a bundle that is none."""
        for bundle in bundles:
            try:
                amounts(bundle)
            except (TypeError, ValueError, AttributeError) as error:
                raise OptionError(f"{bundle!r} can't be asked for: {error}") from None

    def cancel_drain(self, node_id: str) -> None:
        """Do nothing: the one node never drains. Raises OptionError for another one."""
        self._check_node(node_id)

    def _check_node(self, node_id: str) -> None:
        own = self._facts.node.hex()
        if node_id not in ("", own):
            raise OptionError(f"there is no living node {node_id!r}; the living nodes are {own}")
