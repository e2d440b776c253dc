"""How many items a shard sends at once: a decision about numbers and seconds, without clocks or processes."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass

MOST_BYTES = 1 << 20
"""A batch that holds so many bytes, by what its items say of themselves, is full."""
_MOST_ITEMS = 1024
_MOST_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Batching:
    """What a reader asks of a shard, and how far it may run ahead of what is read.

    items, seconds: a batch is full when it has so many items or is so old. growing: begin with one item and double,
    so that who reads little fetches little. ahead: ask for the next batch before this one is read.
    """

    items: int = 1
    seconds: float | None = None
    growing: bool = False
    ahead: bool = False

    def size(self, number: int) -> int:
        """Return how many items the batch `number` (from 0) may have."""
        return min(self.items, 2 ** min(number, 30)) if self.growing else self.items


ONE_BY_ONE = Batching()
"""One item a request, and the next request when that item has been used: what fetch ordering promises."""

UNSEEN = Batching(_MOST_ITEMS, _MOST_SECONDS, growing=True, ahead=True)
"""For shards in which no code of users runs: nobody can tell that their items were fetched earlier."""


def for_milliseconds(batch_ms: float) -> Batching:
    """Return what `batch_ms` asks for: all items that a shard has made in so many milliseconds."""
    return Batching(1 << 30, batch_ms / 1000) if batch_ms else ONE_BY_ONE


def for_prefetch(items: int) -> Batching:
    """Return what `prefetch` asks for: up to so many items at once, and as many again on their way."""
    return Batching(items, _MOST_SECONDS, ahead=True) if items else ONE_BY_ONE
