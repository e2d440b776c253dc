"""Choose the replicas that stop when there are too many."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kernel_serve.control.replica_state import STARTING, ReplicaState


def choose(
    replicas: Iterable[ReplicaState], count: int, leaving: Collection[str], per_node: Mapping[str, int]
) -> list[ReplicaState]:
    """Return the `count` replicas whose end costs least.

    Starting replicas come first, then those on nodes that are about to leave (`leaving`), then those on nodes with few
    replicas (`per_node`, of all deployments), so that nodes become empty; among equals the newest.
    """

    def order(replica: ReplicaState) -> tuple[bool, bool, int, int]:
        return (
            replica.phase != STARTING,
            replica.node not in leaving,
            per_node.get(replica.node, 0),
            -replica.number,
        )

    return sorted(replicas, key=order)[:count] if count > 0 else []
