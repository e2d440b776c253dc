"""Which ranks replicas have: numbers from 0 up, which programs share their work by.

A replica keeps its rank as long as it can. While others are replaced, there are more replicas than are wanted, and the
ranks of new ones come behind; when the old ones are gone, those take the places that have become free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def lowest_free(taken: Collection[int]) -> int:
    """Return the rank of a new replica."""
    return next(rank for rank in range(len(taken) + 1) if rank not in taken)


def closed(running: Mapping[str, int], taken: Collection[int], wanted: int) -> dict[str, int]:
    """Return who of `running` has to take another rank, and which, so that none is `wanted` or more."""
    free = [rank for rank in range(wanted) if rank not in taken]
    beyond = sorted((rank, id) for id, rank in running.items() if rank >= wanted)
    return {id: rank for rank, (_, id) in zip(free, beyond, strict=False)}
