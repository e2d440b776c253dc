"""Run several nodes on this machine, for tests, by `ray.cluster_utils.Cluster`."""

from __future__ import annotations

import importlib
import json
from typing import Any

import kernel
from kernel_compat_ray.deprecation import warn_ignored
from kernel_compat_ray.ids import NodeID
from kernel_compat_ray.labels import to_kernel

_KNOWN = ("num_cpus", "num_gpus", "resources", "labels", "object_store_memory", "memory")


class Node:
    """Represents a node of a cluster, by its attributes in the kit for tests and by Ray's."""

    def __init__(self, node: Any) -> None:
        self.of_the_kit = node
        self.node_id = self.unique_id = NodeID(node.id)
        self.node_ip_address = "127.0.0.1"

    def __getattr__(self, name: str) -> Any:
        """Return what the kit's node has."""
        return getattr(self.__dict__["of_the_kit"], name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.node_id == other.node_id

    def __hash__(self) -> int:
        return hash(self.node_id)


class Cluster:
    """Adds and removes nodes. Options are those of `add_node`."""

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,
        **others: Any,
    ) -> None:
        self._cluster: Any = None
        if initialize_head or connect:
            self.add_node(**(head_node_args or {}))
        if connect:
            self.connect()

    @property
    def address(self) -> str:
        """Return where a program joins: what `ray.init(address=...)` takes."""
        return str(self._cluster.head.directory)

    gcs_address = redis_address = address

    @property
    def head_node(self) -> Any:
        """Return the head's node."""
        return Node(self._cluster.head) if self._cluster is not None else None

    @property
    def list_all_nodes(self) -> Any:
        """Return a function that returns the living nodes."""
        return lambda: [Node(node) for node in self._cluster.nodes] if self._cluster is not None else []

    @property
    def worker_nodes(self) -> set[Any]:
        """Return the living nodes but the head's."""
        return set(self.list_all_nodes()[1:])

    def add_node(self, wait: bool = True, **options: Any) -> Any:
        """Start a node, the head's first, and return it once it has joined."""
        given = {name: value for name, value in options.items() if name in _KNOWN and value is not None}
        if isinstance(given.get("resources"), str):
            given["resources"] = json.loads(given["resources"])
        if "labels" in given:
            given["labels"] = to_kernel(given["labels"])
        for name in options.keys() - set(_KNOWN):
            if options[name]:
                warn_ignored(f"Cluster.add_node({name}=...)", "nodes of a test cluster have no such setting")
        if self._cluster is not None:
            return Node(self._cluster.add_node(**given))
        # The kit for tests is public, but no ordinary program loads it.
        testing = importlib.import_module("kernel.testing")
        self._cluster = testing.Cluster(leak_check=False, **given)
        return Node(self._cluster.head)

    def remove_node(self, node: Any, allow_graceful: bool = True) -> None:
        """End a node: as `kernel stop` would, or with `allow_graceful=False` as a power cut would."""
        if allow_graceful:
            self._cluster.remove_node(node.of_the_kit)
        else:
            self._cluster.kill_node(node.of_the_kit)

    def connect(self, namespace: str | None = None) -> None:
        """Make this process a driver of the cluster."""
        self._cluster.connect(**({"namespace": namespace} if namespace else {}))

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Return when all nodes that were added are alive."""
        if kernel.is_initialized():
            self._cluster.wait_for_nodes(len(self._cluster.nodes), timeout)

    def shutdown(self) -> None:
        """End this process's session and every node."""
        if self._cluster is not None:
            self._cluster.shutdown()
            self._cluster = None
