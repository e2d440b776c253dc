"""The actor that holds a queue: all of it is coroutines, so those who wait stand in nobody's way."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import kernel
from kernel.exceptions import KernelError
from kernel_parallel.queue_state import Accept, Give, Instruction, QueueState

WAITING = "waiting"
"""The concurrency group of calls that wait."""
MOST_WAITING = 1_000_000


class QueueActor:
    """Does what `QueueState` says. Items come and go in lists, so that a reference stays one."""

    def __init__(self, maxsize: int) -> None:
        self._state = QueueState(maxsize)
        self._numbers = itertools.count()
        self._waiters: dict[int, asyncio.Future[Any]] = {}
        self._probes: dict[int, Any] = {}
        self._checks: set[asyncio.Task[None]] = set()

    async def put_now(self, items: list[Any]) -> int:
        """Add all items and return -1; or add none and return how many there are, if there is no room."""
        todo = self._state.put(items)
        if todo is None:
            return len(self._state.items)
        self._do(todo)
        return -1

    async def take_now(self, count: int) -> list[Any] | int:
        """Return the oldest items; or none but how many there are, if there are fewer."""
        found = self._state.take(count)
        if found is None:
            return len(self._state.items)
        items, todo = found
        self._do(todo)
        return items

    @kernel.method(concurrency_group=WAITING)
    async def wait_to_put(self, items: list[Any], timeout: float | None) -> bool:
        """Add an item when there is room; return whether there was within the timeout."""
        number, future = self._new_waiter()
        self._do(self._state.wait_to_put(number, items[0]))
        try:
            await asyncio.wait_for(future, timeout)
        except asyncio.TimeoutError:
            return False
        finally:
            self._state.leave(number)
            self._waiters.pop(number, None)
        return True

    @kernel.method(concurrency_group=WAITING)
    async def wait_to_take(self, timeout: float | None, probe: list[Any]) -> list[Any]:
        """Return a list with an item as soon as there is one, or an empty list when the timeout is over.

        `probe` holds a reference whose owner is the getter: an item goes only to one that still lives. The item of one
        that does not goes back to the front; what was taken while its owner was asked has overtaken it.
        """
        number, future = self._new_waiter()
        self._probes[number] = probe[0]
        self._do(self._state.wait_to_get(number))
        try:
            return [await asyncio.wait_for(future, timeout)]
        except asyncio.TimeoutError:
            return []
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._do(self._state.give_back(future.result()))
            raise
        finally:
            self._state.leave(number)
            self._waiters.pop(number, None)
            self._probes.pop(number, None)

    async def give_back(self, items: list[Any]) -> None:
        """Take back items that whoever took them never saw."""
        for item in reversed(items):
            self._do(self._state.give_back(item))

    async def size(self) -> int:
        """Return how many items there are."""
        return len(self._state.items)

    async def waiting(self) -> int:
        """Return how many calls wait for an item or for room."""
        return len(self._waiters)

    def _new_waiter(self) -> tuple[int, asyncio.Future[Any]]:
        number = next(self._numbers)
        future = self._waiters[number] = asyncio.get_running_loop().create_future()
        return number, future

    def _do(self, todo: list[Instruction]) -> None:
        for instruction in todo:
            if isinstance(instruction, Accept):
                future = self._waiters.get(instruction.putter)
                if future is not None and not future.done():
                    future.set_result(None)
            else:
                task = asyncio.ensure_future(self._hand_over(instruction))
                self._checks.add(task)
                task.add_done_callback(self._checks.discard)

    async def _hand_over(self, gift: Give) -> None:
        alive = True
        try:
            await self._probes[gift.getter]
        except (KernelError, KeyError):
            alive = False
        future = self._waiters.get(gift.getter)
        if alive and future is not None and not future.done():
            future.set_result(gift.item)
        else:
            self._do(self._state.give_back(gift.item))
