"""Choose the node of a replica, as far as Serve does: by its resources, and by the limit of replicas per node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_NAMED = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory", "object_store_memory": "object_store_memory"}


def wanted_of(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the resources that an actor with these options wants, by name."""
    wanted = {resource: float(options[name]) for name, resource in _NAMED.items() if options.get(name)}
    wanted.update({name: float(quantity) for name, quantity in (options.get("resources") or {}).items() if quantity})
    return wanted


def could_fit(parts: Iterable[Mapping[str, float]], nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether for each part (what an actor or a bundle wants) there is a node that is large enough.

    `nodes` are rows of `kernel.nodes()`.
    """
    staying = [node for node in nodes if node["State"] == "ALIVE"]
    return all(any(_holds(node["Resources"], part) for node in staying) for part in parts)


def choose_node(
    wanted: Mapping[str, float], nodes: Sequence[Mapping[str, Any]], taken: Mapping[str, int], limit: int
) -> str | None:
    """Return the id of a node with room and fewer than `limit` replicas of a deployment; None without such a node.

    `taken` maps nodes to their number of replicas. The node with fewest is chosen, then the one with most CPUs free.
    """
    free = [
        node
        for node in nodes
        if node["State"] == "ALIVE" and taken.get(node["NodeID"], 0) < limit and _holds(node["Available"], wanted)
    ]
    best = min(free, key=lambda node: (taken.get(node["NodeID"], 0), -node["Available"].get("CPU", 0.0)), default=None)
    return best["NodeID"] if best is not None else None


def _holds(quantities: Mapping[str, float], wanted: Mapping[str, float]) -> bool:
    return all(quantities.get(name, 0.0) >= quantity for name, quantity in wanted.items())
