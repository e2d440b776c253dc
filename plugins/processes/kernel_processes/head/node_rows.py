"""List nodes: make a row for each living node, and for the latest that are gone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.nodes import NodeRecord
from kernel_spec.ids import NodeId
from kernel_spec.resources import Amounts, quantities

SHOWN_DEAD = 100
"""The number of latest lost nodes that are shown."""


def node_rows(cluster: ClusterTable, available: Mapping[NodeId, Amounts], now: float) -> list[dict[str, Any]]:
    """Return a row per node, in the order in which they joined; nodes of an earlier head come first.

    `available` are the free resources of each, `now` is the time on the clock of `NodeRecord.last_heartbeat_at`.
    """
    dead = [_fallen_row(id.hex(), cause) for id, cause in cluster.fallen.items() if id not in cluster.nodes]
    nodes = [node for node in cluster.nodes.values() if not node.client]
    rows = [_row(node, now, available.get(node.id, {}), node.id == cluster.beside) for node in nodes]
    hidden = max(0, sum(not row["Alive"] for row in (*dead, *rows)) - SHOWN_DEAD)
    shown = []
    for row in (*dead, *rows):
        if row["Alive"] or hidden == 0:
            shown.append(row)
        else:
            hidden -= 1
    return shown


def _row(node: NodeRecord, now: float, available: Amounts, beside_head: bool = False) -> dict[str, Any]:
    host, _, port = node.address.rpartition(":")
    socket = os.path.join(node.directory, "agent.sock")
    free: Mapping[str, float] = quantities(available)
    return {
        "NodeID": node.id.hex(),
        "Alive": node.alive,
        "State": node.state,
        "IsHead": beside_head,
        "NodeManagerAddress": host or "127.0.0.1",
        "NodeManagerHostname": node.host,
        "NodeManagerPort": int(port or 0),
        "ObjectManagerPort": int(port or 0),
        "ObjectStoreSocketName": socket,
        "RayletSocketName": socket,
        "Resources": dict(node.total) if node.alive else {},
        "Available": {name: max(0.0, free.get(name, 0.0)) for name in node.total} if node.alive else {},
        "Labels": dict(node.labels),
        "Version": node.version,
        "HeardSecondsAgo": round(now - node.last_heartbeat_at, 3) if node.last_heartbeat_at is not None else 0.0,
        "alive": node.alive,
        "AgentPid": node.pid,
        "Cause": node.cause,
    }


def _fallen_row(id: str, cause: str) -> dict[str, Any]:
    """Return a row for a node that was gone before this head began, of which only id and cause are known."""
    node = NodeRecord(
        id=b"", send=lambda message: None, total={}, labels={}, devices=(), host="", address="", directory="", pid=0,
        joined=0.0, alive=False, cause=cause,
    )  # type: ignore[arg-type]  # fmt: skip
    return {**_row(node, 0.0, {}), "NodeID": id, "NodeManagerAddress": "", "HeardSecondsAgo": None}
