"""Decide which requests go together, and when: items and times in, batches out. No clock, no event loop.

A batch goes when it is full, or when the first of its items has waited long enough, if the limit of running batches
allows it. Items of different groups, such as requests for different models, never go together.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from kernel_serve.batching.settings import BatchSettings


class Item:
    """Holds one waiting request: its value, its group, and the time since which it waits, in seconds."""

    __slots__ = ("group", "since", "value")

    def __init__(self, value: Any, since: float, group: str = "") -> None:
        self.value = value
        self.since = since
        self.group = group


class BatchLane:
    """Holds the items of one group, in the order of their arrival. A lane in a queue is never empty."""

    __slots__ = ("_known", "_known_for", "_known_size", "items")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.forget()

    def forget(self) -> None:
        """Forget how many items fit into a batch, after one was removed."""
        self._known, self._known_size, self._known_for = 0, 0.0, 0

    def fitting(self, settings: BatchSettings) -> int:
        """Return how many of the first items make a batch: as many as fit by size, at least one."""
        if settings.size_of is None:
            return min(len(self.items), settings.max_batch_size)
        if self._known_for != settings.max_batch_size:
            self.forget()
            self._known_for = settings.max_batch_size
        while self._known < len(self.items):
            size = settings.size_of([item.value for _, item in zip(range(self._known + 1), self.items, strict=False)])
            if self._known and size > settings.max_batch_size:
                break
            self._known += 1
            self._known_size = size
        return self._known

    def full(self, settings: BatchSettings) -> bool:
        """Return whether a batch of the first items can't become larger."""
        if settings.size_of is None:
            return len(self.items) >= settings.max_batch_size
        return self.fitting(settings) < len(self.items) or self._known_size >= settings.max_batch_size


class BatchQueue:
    """Items go in by `put`, batches come out by `take`; `finished` says that a batch has been answered.

    `settings` may change at any time, also for waiting items. Errors of `size_of` are raised by these methods.
    """

    def __init__(self, settings: BatchSettings) -> None:
        self.settings = settings
        self.running = 0
        self._lanes: dict[str, BatchLane] = {}

    def __len__(self) -> int:
        return sum(len(lane.items) for lane in self._lanes.values())

    def put(self, item: Item) -> bool:
        """Add `item`; return whether a batch can go at once, so that `take` is worth a call."""
        lane = self._lanes.get(item.group)
        if lane is None:
            lane = self._lanes[item.group] = BatchLane()
        lane.items.append(item)
        return self.running < self.settings.max_concurrent_batches and lane.full(self.settings)

    def discard(self, item: Item) -> None:
        """Remove `item`, whose caller has gone. Nothing happens if it is in a batch already."""
        lane = self._lanes.get(item.group)
        if lane is None or item not in lane.items:
            return
        lane.items.remove(item)
        lane.forget()
        if not lane.items:
            del self._lanes[item.group]

    def take(self, now: float) -> list[Item]:
        """Return the batch that is due, which counts as running from now on; [] if none is due."""
        if not self._lanes or self.running >= self.settings.max_concurrent_batches:
            return []
        lane = self._first_due(now)
        if lane is None:
            return []
        batch = [lane.items.popleft() for _ in range(lane.fitting(self.settings))]
        lane.forget()
        if not lane.items:
            del self._lanes[batch[0].group]
        self.running += 1
        return batch

    def take_all(self) -> list[Item]:
        """Remove all waiting items, and return them."""
        waiting = [item for lane in self._lanes.values() for item in lane.items]
        self._lanes.clear()
        return waiting

    def finished(self) -> None:
        """Note that a batch that was taken has been answered."""
        self.running -= 1

    def due(self) -> float | None:
        """Return the time at which the next batch is due; None if it waits for a running batch, or nothing waits."""
        if not self._lanes or self.running >= self.settings.max_concurrent_batches:
            return None
        return min(map(_since, self._lanes.values())) + self.settings.wait_seconds

    def _first_due(self, now: float) -> BatchLane | None:
        """Return the lane whose first item has waited longest, of those that are full or have waited long enough."""
        wait = self.settings.wait_seconds
        ready = [lane for lane in self._lanes.values() if _since(lane) + wait <= now or lane.full(self.settings)]
        return min(ready, key=_since) if ready else None

    def validate(self) -> None:
        """Raise AssertionError if the queue is not consistent."""
        assert self.running >= 0, f"{self.running} batches run"
        for group, lane in self._lanes.items():
            assert lane.items, f"the lane of group {group!r} is empty"
            assert all(item.group == group for item in lane.items), f"the lane of group {group!r} has items of others"
            times = [item.since for item in lane.items]
            assert times == sorted(times), f"the lane of group {group!r} is not in the order of arrival"


def _since(lane: BatchLane) -> float:
    return lane.items[0].since
