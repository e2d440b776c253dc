"""The operations, as messages between ranks. Every function works on flat, contiguous arrays, in place.

Small arrays are moved in as few rounds as possible, large ones so that every connection carries as few bytes as
possible. Where the algorithms are from:

- ring (reduce-scatter, then allgather): P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
  workstations", J. Parallel Distrib. Comput. 69 (2009)
- recursive doubling, pairwise exchange, and folding in the ranks beyond a power of two: R. Thakur, R. Rabenseifner,
  W. Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19 (2005)
- dissemination barrier: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", IJPP 17 (1988)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
SMALL_BYTES = 64 << 10
"""Up to this size rounds cost more than bytes."""
_SEGMENT_BYTES = 1 << 20


class Links(Protocol):
    """What an algorithm needs: who it is, and to send and receive at the same time (see `mesh.Mesh.exchange`)."""

    rank: int
    size: int

    def exchange(
        self, sends: Sequence[tuple[int, Array]], receives: Sequence[tuple[int, Array]], function: Any = None
    ) -> None:
        """Send and receive; `function` joins what comes with what is there."""


def allreduce(links: Links, data: Array, function: Any) -> None:
    """Let every rank's `data` become the reduction of all of them; all ranks get the very same bits."""
    if links.size == 1:
        return
    if data.nbytes <= SMALL_BYTES:
        _recursive_doubling(links, data, function)
        return
    blocks = _blocks(data, links.size)
    _ring_reduce(links, blocks, function)
    _ring_gather(links, blocks, links.rank)


def reduce(links: Links, data: Array, root: int, function: Any) -> None:
    """Let the root's `data` become the reduction of all; on other ranks its content is used up."""
    if links.size == 1:
        return
    if data.nbytes <= SMALL_BYTES:
        _tree_reduce(links, data, root, function)
        return
    blocks = _blocks(data, links.size)
    _ring_reduce(links, blocks, function)
    if links.rank == root:
        links.exchange([], [(rank, blocks[rank]) for rank in range(links.size) if rank != root])
    else:
        links.exchange([(root, blocks[links.rank])], [])


def broadcast(links: Links, data: Array, root: int) -> None:
    """Let every rank's `data` become the root's."""
    if links.size == 1:
        return
    if data.nbytes <= SMALL_BYTES:
        _tree_broadcast(links, data, root)
    else:
        _chain_broadcast(links, data, root)


def allgather(links: Links, blocks: Sequence[Array]) -> None:
    """Let every rank's `blocks[i]` become that of rank `i`."""
    if blocks[links.rank].nbytes <= SMALL_BYTES:
        others = [rank for rank in range(links.size) if rank != links.rank]
        links.exchange([(rank, blocks[links.rank]) for rank in others], [(rank, blocks[rank]) for rank in others])
    else:
        _ring_gather(links, blocks, links.rank)


def reducescatter(links: Links, blocks: Sequence[Array], into: Array, function: Any) -> None:
    """Let `into` become the reduction of `blocks[rank]` of all ranks; pairs exchange, at a growing distance."""
    into[...] = blocks[links.rank]
    for distance in range(1, links.size):
        to, source = (links.rank + distance) % links.size, (links.rank - distance) % links.size
        links.exchange([(to, blocks[to])], [(source, into)], function)


def barrier(links: Links) -> None:
    """Return when all ranks have come; in round `k` each hears, by way of others, of 2 ** k more."""
    nothing, distance = np.empty(0, np.uint8), 1
    while distance < links.size:
        to, source = (links.rank + distance) % links.size, (links.rank - distance) % links.size
        links.exchange([(to, nothing)], [(source, nothing)])
        distance *= 2


def _blocks(data: Array, count: int) -> list[Array]:
    return np.array_split(data, count)


def _ring_reduce(links: Links, blocks: Sequence[Array], function: Any) -> None:
    """Let `blocks[rank]` become its reduction over all ranks; each step passes a partial result to the next rank."""
    rank, size = links.rank, links.size
    to, source = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        send, receive = (rank - step - 1) % size, (rank - step - 2) % size
        links.exchange([(to, blocks[send])], [(source, blocks[receive])], function)


def _ring_gather(links: Links, blocks: Sequence[Array], own: int) -> None:
    """Let `blocks` be full everywhere, where each rank has its own; each step passes one on to the next rank."""
    size = links.size
    to, source = (links.rank + 1) % size, (links.rank - 1) % size
    for step in range(size - 1):
        links.exchange([(to, blocks[(own - step) % size])], [(source, blocks[(own - step - 1) % size])])


def _recursive_doubling(links: Links, data: Array, function: Any) -> None:
    """In round `k` exchange with the rank at distance 2 ** k; ranks beyond a power of two lend theirs to a partner."""
    rank = links.rank
    power = 1 << (links.size.bit_length() - 1)
    beyond = links.size - power
    if rank >= power:
        links.exchange([(rank - power, data)], [])
        links.exchange([], [(rank - power, data)])
        return
    if rank < beyond:
        links.exchange([], [(rank + power, data)], function)
    distance = 1
    while distance < power:
        mine = data.copy()  # what is sent must not change while it is joined with what comes
        links.exchange([(rank ^ distance, mine)], [(rank ^ distance, data)], function)
        distance *= 2
    if rank < beyond:
        links.exchange([(rank + power, data)], [])


def _tree_reduce(links: Links, data: Array, root: int, function: Any) -> None:
    """Join pairs of ranks, then pairs of pairs, up to the root."""
    place, distance = (links.rank - root) % links.size, 1
    while distance < links.size:
        if place & distance:
            links.exchange([((place - distance + root) % links.size, data)], [])
            return
        if place + distance < links.size:
            links.exchange([], [((place + distance + root) % links.size, data)], function)
        distance *= 2


def _tree_broadcast(links: Links, data: Array, root: int) -> None:
    """Let each rank that has it give it to one that has not, twice as many in every round."""
    place = (links.rank - root) % links.size
    distance = 1 << (links.size - 1).bit_length()
    if place:
        lowest = place & -place
        links.exchange([], [((place - lowest + root) % links.size, data)])
        distance = lowest
    distance //= 2
    while distance:
        if place + distance < links.size:
            links.exchange([((place + distance + root) % links.size, data)], [])
        distance //= 2


def _chain_broadcast(links: Links, data: Array, root: int) -> None:
    """Pass it on from rank to rank in segments, each rank sending one while it receives the next."""
    place = (links.rank - root) % links.size
    before = (links.rank - 1) % links.size
    after = (links.rank + 1) % links.size if place < links.size - 1 else None
    step = max(1, _SEGMENT_BYTES // data.itemsize)
    segments = [data[begin : begin + step] for begin in range(0, data.size, step)]
    if place == 0:
        for segment in segments:
            links.exchange([(after, segment)] if after is not None else [], [])
        return
    held: Array | None = None
    for coming in [*segments, None]:
        sends = [(after, held)] if after is not None and held is not None else []
        links.exchange(sends, [(before, coming)] if coming is not None else [])
        held = coming
