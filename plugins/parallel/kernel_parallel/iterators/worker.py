"""The worker actor of a shard: makes items, applies the operators to them, hands them over when asked."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kernel_parallel.iterators.batches import MOST_BYTES
from kernel_parallel.iterators.errors import IterationError
from kernel_parallel.iterators.local import LocalIterator
from kernel_parallel.iterators.metrics import SharedMetrics

_SMALL = frozenset((int, float, bool, type(None)))
"""Types whose values are never too large for a batch."""
Step = Callable[[LocalIterator[Any]], LocalIterator[Any]]


class ParallelIteratorWorker:
    """Base class of actors that are the shards of a parallel iterator. Subclasses call its constructor.

    An iterable is gone through from its beginning whenever an iterator over it is read anew; what can only be gone
    through once (a generator, or what a function returns) goes on where it was.
    """

    def __init__(self, item_generator: Any, repeat: bool = False) -> None:
        """item_generator: an iterable, or a function without arguments that returns one; it is called when the first
        item is wanted. repeat: go through it, or call it, again and again.
        """
        self._source = item_generator
        self._repeat = repeat
        self._made: Iterable[Any] | None = None
        self._items: Iterator[Any] | None = None
        self._failure: BaseException | None = None
        self._dealt: dict[int, deque[Any]] = {}
        self._turn = 0

    def par_iter_init(self, transforms: Sequence[Step]) -> None:
        """Begin to iterate, with these operators (functions from local iterator to local iterator)."""
        items: LocalIterator[Any] = LocalIterator(self._base, SharedMetrics())
        for step in transforms:
            items = step(items)
            if not isinstance(items, LocalIterator):
                raise IterationError(f"{step!r} must return a local iterator, and returned {items!r}")
        self._items = iter(items)
        self._failure = None
        self._dealt = {}
        self._turn = 0

    def par_iter_next(self) -> Any:
        """Return the next item. Raises StopIteration when there is none."""
        return next(self._begun())

    def par_iter_slice(self, step: int, start: int) -> Any:
        """Return the next one of every `step`-th item from `start` on. Raises StopIteration when there is none."""
        waiting = self._dealt.setdefault(start, deque())
        while not waiting:
            item = next(self._begun())
            self._dealt.setdefault(self._turn % step, deque()).append(item)
            self._turn += 1
        return waiting.popleft()

    def par_iter_next_batch(self, most_items: int, seconds: float | None) -> tuple[list[Any], bool]:
        """Return up to `most_items` items, as many as are made in `seconds`, and whether there may be more."""
        if type(self).par_iter_next is ParallelIteratorWorker.par_iter_next:
            return self._gather(self._begun().__next__, most_items, seconds)
        return self._gather(self.par_iter_next, most_items, seconds)

    def par_iter_slice_batch(
        self, step: int, start: int, most_items: int, seconds: float | None
    ) -> tuple[list[Any], bool]:
        """Return what `par_iter_slice` gives, as `par_iter_next_batch` does."""
        return self._gather(lambda: self.par_iter_slice(step, start), most_items, seconds)

    def _gather(self, take: Callable[[], Any], most_items: int, seconds: float | None) -> tuple[list[Any], bool]:
        """Gather items. What fails after the first is raised next time, so that no item before it is lost."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        gathered: list[Any] = []
        room, clock = MOST_BYTES, time.monotonic
        deadline = math.inf if seconds is None else clock() + seconds
        for _ in range(most_items):
            try:
                item = take()
            except StopIteration:
                return gathered, False
            except Exception as failure:
                if not gathered:
                    raise
                self._failure = failure
                break
            gathered.append(item)
            if type(item) not in _SMALL:
                room -= getattr(item, "nbytes", 0) or sys.getsizeof(item, 0)
            if room <= 0 or clock() >= deadline:
                break
        return gathered, True

    def _begun(self) -> Iterator[Any]:
        if self._items is None:
            raise IterationError(
                f"{type(self).__name__} was asked for an item before par_iter_init(): it was started again, or is not "
                "read through an iterator; read a new iterator made by from_actors()"
            )
        return self._items

    def _base(self, timeout: float | None = None) -> Iterable[Any]:
        if self._made is None:
            self._made = self._cycle() if self._repeat else self._make()
        return self._made

    def _make(self) -> Iterable[Any]:
        made: Iterable[Any] = self._source() if callable(self._source) else self._source
        return made

    def _cycle(self) -> Iterator[Any]:
        while True:
            made = self._make()
            items = iter(made)
            if items is self._source:
                raise IterationError(
                    f"{self._source!r} can be gone through only once, so it can't be repeated: give what it iterates "
                    "over, or a function that returns a new one, as in from_iterators([lambda: ...], repeat=True)"
                )
            found = False
            for item in items:
                found = True
                yield item
            if not found:
                return
