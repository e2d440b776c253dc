"""One iterator out of several, and several out of one."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kernel.exceptions import OptionError, SerializationError
from kernel_parallel.iterators.metrics import SharedMetrics
from kernel_parallel.iterators.readiness import NextValueNotReady, Patience

_MOST_IN_A_TURN = 100
"""Items that are taken from an iterator of weight "*" before it is the turn of the others."""


class Union:
    """The items of several local iterators, in turn or as they are ready."""

    def __init__(
        self,
        members: Sequence[Any],
        metrics: SharedMetrics,
        deterministic: bool,
        weights: Sequence[float | str] | None,
    ) -> None:
        if weights is not None and len(weights) != len(members):
            raise OptionError(f"round_robin_weights has {len(weights)} weights for {len(members)} iterators")
        self._members = list(members)
        self._metrics = metrics
        self._weights = list(weights) if weights is not None else [1] * len(members)
        if any(weight != "*" and not float(weight) > 0 for weight in self._weights):
            raise OptionError(f'weights are numbers above 0, or "*", not {list(self._weights)}')
        self._blocks = [deterministic] * len(members) if weights is None else [weight != "*" for weight in weights]

    def __call__(self, timeout: float | None = None) -> Iterator[Any]:
        active = [
            (weight, member.with_timeout(None if blocks and timeout is None else 0))
            for weight, member, blocks in zip(self._weights, self._members, self._blocks, strict=True)
        ]
        patience = Patience()
        while active:
            idle: list[NextValueNotReady] = []
            found = False
            for turn in list(active):
                weight, items = turn
                for _ in range(_MOST_IN_A_TURN if weight == "*" else _whole(float(weight))):
                    try:
                        item = next(items)
                    except StopIteration:
                        active.remove(turn)
                        break
                    if isinstance(item, NextValueNotReady):
                        idle.append(item)
                        break
                    found = True
                    yield item
            if found:
                patience.reset()
            elif idle and timeout is None:
                patience.wait(idle)
            elif idle:
                known = all(one.refs for one in idle)
                yield NextValueNotReady([ref for one in idle for ref in one.refs] if known else ())


class Copies:
    """What all duplicates of an iterator share: the iterator, and what some have read and others have not."""

    def __init__(self, source: Any, count: int) -> None:
        self._source = source
        self._waiting: list[deque[Any]] = [deque() for _ in range(count)]
        self._items: Iterator[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        raise SerializationError(
            f"can't send a duplicate of {self._source}: duplicates share what they have read; send the iterator and "
            "call duplicate() in the process that reads"
        )

    def reader(self, index: int) -> Callable[[float | None], Iterator[Any]]:
        """Return the base of a duplicate."""
        return _Reader(self, index)

    def read(self, index: int, timeout: float | None) -> Iterator[Any]:
        """Yield all items for the duplicate `index`; one that must not block lets those behind it go first."""
        mine = self._waiting[index]
        while True:
            if timeout is not None and len(mine) < max(map(len, self._waiting)):
                yield NextValueNotReady()
            if not mine:
                try:
                    item = next(self._source_items())
                except StopIteration:
                    return
                if isinstance(item, NextValueNotReady):
                    yield item
                    continue
                for waiting in self._waiting:
                    waiting.append(item)
            yield mine.popleft()

    def _source_items(self) -> Iterator[Any]:
        if self._items is None:
            self._items = iter(self._source.with_timeout(0))
        return self._items


class _Reader:
    """The base iterator of one duplicate."""

    def __init__(self, copies: Copies, index: int) -> None:
        self._copies = copies
        self._index = index

    def __call__(self, timeout: float | None = None) -> Iterator[Any]:
        return self._copies.read(self._index, timeout)


def _whole(weight: float) -> int:
    """Return a weight as a number of items: 1.25 is 1 three times out of four, else 2."""
    whole = int(weight)
    return whole + (random.random() < weight - whole)
