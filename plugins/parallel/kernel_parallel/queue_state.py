"""The items of a queue, and the calls that wait for it. A state machine: no I/O, no clocks, no tasks.

Every method returns instructions for the shell: `Give(getter, item)` hands an item to somebody who waits, `Accept`
tells somebody who waits that the item is in. Getters and putters are served in the order in which they came.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Give:
    """Hand an item to a getter that waits."""

    getter: int
    item: Any


@dataclass(frozen=True, slots=True)
class Accept:
    """Tell a putter that its item is in."""

    putter: int


Instruction = Give | Accept


class QueueState:
    """Items, and getters and putters that wait. `maxsize` 0 means any number of items."""

    def __init__(self, maxsize: int) -> None:
        self.maxsize = max(0, maxsize)
        self.items: deque[Any] = deque()
        self._getters: OrderedDict[int, None] = OrderedDict()
        self._putters: OrderedDict[int, Any] = OrderedDict()

    def room(self) -> float:
        """Return for how many items there is room."""
        return self.maxsize - len(self.items) if self.maxsize else float("inf")

    def put(self, items: list[Any]) -> list[Instruction] | None:
        """Add all items, or none and return None when there is no room for all."""
        if self._putters or len(items) > self.room() + len(self._getters):
            return None
        self.items.extend(items)
        return self._settle()

    def take(self, count: int) -> tuple[list[Any], list[Instruction]] | None:
        """Remove and return the oldest `count` items, or none and return None when there are fewer."""
        if len(self.items) < count:
            return None
        taken = [self.items.popleft() for _ in range(count)]
        return taken, self._settle()

    def wait_to_get(self, getter: int) -> list[Instruction]:
        """Note that a getter waits for an item."""
        self._getters[getter] = None
        return self._settle()

    def wait_to_put(self, putter: int, item: Any) -> list[Instruction]:
        """Note that a putter waits until its item is in."""
        self._putters[putter] = item
        return self._settle()

    def leave(self, waiter: int) -> bool:
        """Forget a getter or putter that waits no longer; return whether it did."""
        waited = waiter in self._getters or waiter in self._putters
        self._getters.pop(waiter, None)
        self._putters.pop(waiter, None)
        return waited

    def give_back(self, item: Any) -> list[Instruction]:
        """Take back an item that could not be handed over: it is the next again, whether there is room or not."""
        self.items.appendleft(item)
        return self._settle()

    def _settle(self) -> list[Instruction]:
        todo: list[Instruction] = []
        while True:
            if self._getters and self.items:
                todo.append(Give(self._getters.popitem(last=False)[0], self.items.popleft()))
            elif self._putters and (self.room() >= 1 or (self._getters and not self.items)):
                putter, item = self._putters.popitem(last=False)
                self.items.append(item)
                todo.append(Accept(putter))
            else:
                return todo

    def validate(self) -> None:
        """Raise AssertionError when something that must always hold does not."""
        assert not (self._getters and self.items), "a getter waits though there are items"
        assert not (self._putters and self.room() >= 1), "a putter waits though there is room"
