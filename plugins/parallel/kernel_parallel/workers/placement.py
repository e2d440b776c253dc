"""On which nodes workers live: in proportion to the CPUs there."""

from __future__ import annotations

from collections.abc import Mapping


def spread(count: int, cpus: Mapping[str, float]) -> list[str]:
    """Return a node for each of `count` workers, given node to CPUs: always the one with most CPUs per worker.

    Nodes without CPUs get none, unless no node has any.
    """
    nodes = {node: number for node, number in cpus.items() if number > 0} or dict.fromkeys(cpus, 1.0)
    held = dict.fromkeys(nodes, 0)
    places = []
    for _ in range(count):
        node = max(nodes, key=lambda name: nodes[name] / (held[name] + 1))
        held[node] += 1
        places.append(node)
    return places
