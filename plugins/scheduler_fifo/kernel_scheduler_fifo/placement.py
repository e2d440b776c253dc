"""Where a request wants to go: a scheduling strategy, understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel_spec.ids import NodeId


@dataclass(frozen=True, slots=True)
class Placement:
    """A scheduling strategy, understood. `node` is set for a node affinity; `soft` lets others stand in for it."""

    spread: bool = False
    node: NodeId | None = None
    soft: bool = False


DEFAULT = Placement()
SPREAD = Placement(spread=True)


def placement_of(strategy: str | Mapping[str, Any]) -> Placement:
    """Return what a strategy means here. One that this scheduler does not know means "DEFAULT"."""
    if isinstance(strategy, str):
        return SPREAD if strategy == "SPREAD" else DEFAULT
    if strategy.get("type") == "node_affinity":
        try:
            node = NodeId(bytes.fromhex(strategy["node"]))
        except (KeyError, TypeError, ValueError):
            # A name that no node can have: the request waits, and `explain` says which node it wants.
            node = NodeId(repr(strategy.get("node")).encode())
        return Placement(node=node, soft=bool(strategy.get("soft", False)))
    return DEFAULT
