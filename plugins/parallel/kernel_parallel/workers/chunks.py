"""How much of a sequence one message to a worker carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

QUICK_SECONDS = 0.001
"""Work that is not worth a message of its own: what one message costs, many times over."""
PORTIONS = 4
"""Into how many chunks a worker's share is cut while nothing is known, as the standard library does."""


def chunk_size(total: int, remaining: int, workers: int, seconds_per_item: float | None) -> int:
    """Return how many of the `remaining` items of `total` the next message should carry, so that no worker ends late.

    A quarter of an even share of the rest, so that chunks shrink as the end comes near; more as long as that is quick
    work, up to an even share of all. `seconds_per_item` is None as long as no item was seen.
    """
    cautious = -(-remaining // (workers * PORTIONS))
    if seconds_per_item is None:
        return cautious
    quick = int(QUICK_SECONDS / max(seconds_per_item, 1e-9))
    return max(cautious, min(quick, -(-total // workers), remaining))


def sliceable(items: Any) -> Sequence[Any]:
    """Return the items as something of which slices can be sent: lists, tuples, ranges and arrays are that already."""
    if isinstance(items, (list, tuple, range)) or (type(items).__module__ == "numpy" and hasattr(items, "nbytes")):
        return items  # type: ignore[no-any-return]
    return list(items)
