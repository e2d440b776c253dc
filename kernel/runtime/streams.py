"""Streams: the references of a generator task, in order, as they are made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kernel.logs import Logger
from kernel.runtime.object_entry import INLINE, PENDING, ObjectEntry
from kernel.runtime.waiter import Waiter
from kernel_spec.ids import ObjectId, TaskId, object_id

if TYPE_CHECKING:
    import asyncio

    from kernel.runtime.object_ref import ObjectRef

NO_MORE = -1
"""Stands for the number of taken items: none will be taken any more, which ends the generator."""
NO_LIMIT = 1 << 62

_log = Logger("kernel.runtime")


class ObjectStream:
    """A generator task at its owner: items not yet taken, and whether more will come.

    Changed under the process's lock. `limit` bounds how many items the worker may be ahead (0: unbounded).
    """

    def __init__(self, task: TaskId, completed: ObjectRef | None, limit: int) -> None:
        self.task = task
        self.completed = completed
        self.limit = limit
        self.items: deque[ObjectRef] = deque()
        self.received = 0
        self.taken = 0
        self.finished = False
        self.closed = False
        self.awaited: dict[ObjectId, int] = {}
        """Items that were lost and are to come once more, and in which attempt of the task that was asked for."""
        self.sender: Any = None
        self.arrival: ObjectEntry | None = None
        """Ready when there is an item, or the end; made when a wait for objects includes the stream."""
        self._waiters: list[Waiter | Callable[[], None]] = []

    def next_arrival(self) -> ObjectEntry:
        """Return an entry that is ready when there is something to take, or the end. Under the lock."""
        arrival = self.arrival
        if arrival is None or arrival.state != PENDING:
            end = self.completed._entry if self.completed is not None else None
            arrival = self.arrival = ObjectEntry(object_id(self.task, 0), 0, end.task if end is not None else None)
            if self.items or self.finished:
                arrival.resolve(INLINE, None)
            else:
                self.when_changed(partial(arrival.resolve, INLINE, None))
        return arrival

    def append(self, ref: ObjectRef, index: int) -> None:
        """Add the next item."""
        self.items.append(ref)
        self.received = index
        self._wake()

    def finish(self) -> None:
        """No more items will come."""
        self.finished = True
        self._wake()

    def allowance(self) -> int | None:
        """Return the number of taken items for a worker that begins to send; None when it assumes the same."""
        if self.closed or self.finished:  # if it runs at all, then for the sake of single items
            return NO_LIMIT if self.awaited else NO_MORE
        return self.taken or None

    def take(self) -> ObjectRef | None:
        """Return the next item if there is one."""
        if not self.items:
            return None
        self.taken += 1
        return self.items.popleft()

    def take_all(self) -> list[ObjectRef]:
        """Return everything that is left."""
        items = list(self.items)
        self.items.clear()
        return items

    def when_changed(self, waiter: Waiter | Callable[[], None]) -> None:
        """Tell `waiter` once, when an item arrives or the end."""
        self._waiters.append(waiter)

    def forget(self, waiter: Waiter) -> None:
        """Undo `when_changed`: it waits no longer."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if isinstance(waiter, Waiter):
                waiter.complete()
            else:
                try:
                    waiter()
                except Exception:  # the others wait all the same
                    _log.exception("what waited for a stream failed", task=self.task.hex())


abandoned: deque[ObjectStream] = deque()
"""Streams whose generator was collected before they ended. Filled by `__del__`, drained by the runtime."""


class DynamicReturns:
    """The value of a task with `num_returns="dynamic"`: its references, in the order they were yielded."""

    def __init__(self, refs: list[ObjectRef]) -> None:
        self._refs = refs

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    def __getitem__(self, index: int) -> ObjectRef:
        return self._refs[index]

    def __repr__(self) -> str:
        return f"DynamicReturns({len(self._refs)} references)"


def resolve_future(future: asyncio.Future[None]) -> None:
    """End a wait, unless it was given up."""
    if not future.done():
        future.set_result(None)
