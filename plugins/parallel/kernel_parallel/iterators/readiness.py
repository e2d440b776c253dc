"""How an iterator says "nothing yet" to those who must not block."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import kernel

_SHORTEST_SECONDS = 0.001
_LONGEST_SECONDS = 0.05


class NextValueNotReady(Exception):
    """Stands in an iterator that is read without blocking, where no item is there yet.

    A function given to `for_each` may return one to say that it has no value yet; it is then asked again with the same
    item. Functions given to `transform` pass on what they find of them. `refs`: what is waited for, as far as known.
    """

    def __init__(self, refs: Sequence[Any] = ()) -> None:
        super().__init__("no item is ready yet")
        self.refs = list(refs)


class Patience:
    """Waits until one of several iterators that were not ready may be: for references, or a little longer each time."""

    def __init__(self) -> None:
        self._seconds = _SHORTEST_SECONDS

    def reset(self) -> None:
        """Begin with short waits again: there was an item."""
        self._seconds = _SHORTEST_SECONDS

    def wait(self, found: Iterable[NextValueNotReady]) -> None:
        """Return when one of the references of these is ready; those that name none bound the wait."""
        found = list(found)
        refs = list(dict.fromkeys(ref for one in found for ref in one.refs))
        blind = any(not one.refs for one in found)
        if refs:
            kernel.wait(refs, timeout=self._seconds if blind else None)
        else:
            time.sleep(self._seconds)
        if blind:
            self._seconds = min(2 * self._seconds, _LONGEST_SECONDS)


def until_ready(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items alone: wait wherever one is not ready yet."""
    patience = Patience()
    for item in items:
        if isinstance(item, NextValueNotReady):
            patience.wait([item])
        else:
            patience.reset()
            yield item
