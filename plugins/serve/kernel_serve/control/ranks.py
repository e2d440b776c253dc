"""The ranks of replicas: numbers from 0 up, by which user code can share its work.

A replica keeps its rank as long as it can. During an update there are more replicas than the target, and new ones get
the ranks above; when old ones have ended, the new ones move to the ranks that are free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def lowest_free(taken: Collection[int]) -> int:
    """Return the rank of a new replica: the lowest that is free."""
    return next(rank for rank in range(len(taken) + 1) if rank not in taken)


def closed(running: Mapping[str, int], taken: Collection[int], wanted: int) -> dict[str, int]:
    """Return the new rank of each replica in `running` that must change it, so that all ranks are below `wanted`."""
    free = [rank for rank in range(wanted) if rank not in taken]
    beyond = sorted((rank, id) for id, rank in running.items() if rank >= wanted)
    return {id: rank for rank, (_, id) in zip(free, beyond, strict=False)}
