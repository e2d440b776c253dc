"""A queue that tasks, actors and programs share: the standard library's `queue.Queue`, held by an actor."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from queue import Empty, Full
from typing import Any

import kernel
from kernel.exceptions import KernelError
from kernel_parallel.queue_actor import MOST_WAITING, WAITING, QueueActor

__all__ = ["Empty", "Full", "Queue"]


class Queue:
    """First in, first out, for any number of processes; it may be passed to tasks and actors.

    `maxsize` items at most (0: any number). `actor_options` are those of the actor that holds it, such as
    `{"name": "jobs", "lifetime": "detached"}`. Empty and Full are those of the standard library.
    """

    def __init__(self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None) -> None:
        options = {"concurrency_groups": {WAITING: MOST_WAITING}, **(actor_options or {})}
        self.maxsize = maxsize
        self.actor = kernel.remote(QueueActor).options(**options).remote(maxsize)

    # -- one item --------------------------------------------------------------------------------------------------

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; wait for room, at most `timeout` seconds, unless `block` is False. Raises Full."""
        deadline = _deadline(block, timeout)
        if kernel.get(self.actor.put_now.remote([item])) < 0:
            return
        if not block:
            raise Full
        ref = self.actor.wait_to_put.remote([item], _left(deadline))
        if not self._wait(ref):
            raise Full

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return the oldest item; wait at most `timeout` seconds for one, if `block`. Raises Empty."""
        deadline = _deadline(block, timeout)
        items = kernel.get(self.actor.take_now.remote(1))
        if isinstance(items, int):
            if not block:
                raise Empty
            items = self._wait(self.actor.wait_to_take.remote(_left(deadline), [kernel.put(None)]), gets=True)
        if not items:
            raise Empty
        return items[0]

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """As `put`, for coroutines."""
        deadline = _deadline(block, timeout)
        if await self.actor.put_now.remote([item]) < 0:
            return
        if not block or not await self._wait_async(self.actor.wait_to_put.remote([item], _left(deadline))):
            raise Full

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """As `get`, for coroutines."""
        deadline = _deadline(block, timeout)
        items = await self.actor.take_now.remote(1)
        if isinstance(items, int):
            if not block:
                raise Empty
            probe = kernel.put(None)
            items = await self._wait_async(self.actor.wait_to_take.remote(_left(deadline), [probe]), gets=True)
        if not items:
            raise Empty
        return items[0]

    def put_nowait(self, item: Any) -> None:
        """As `put(item, block=False)`."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """As `get(block=False)`."""
        return self.get(block=False)

    # -- several items ---------------------------------------------------------------------------------------------

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items, in order and next to each other. Raises Full, and adds none, when there is no room for all."""
        batch = list(items)
        there = kernel.get(self.actor.put_now.remote(batch))
        if there >= 0:
            raise Full(f"can't add {len(batch)} items to a queue that holds {there} of at most {self.maxsize}")

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Remove and return the oldest `num_items` items. Raises Empty, and removes none, when there are fewer."""
        if not isinstance(num_items, int) or isinstance(num_items, bool):
            raise TypeError(f"num_items must be an int, not {num_items!r}")
        if num_items < 0:
            raise ValueError(f"num_items must be zero or more, not {num_items}")
        items = kernel.get(self.actor.take_now.remote(num_items))
        if isinstance(items, int):
            raise Empty(f"can't take {num_items} items from a queue that holds {items}")
        taken: list[Any] = items
        return taken

    # -- all of it -------------------------------------------------------------------------------------------------

    def qsize(self) -> int:
        """Return how many items there are."""
        return int(kernel.get(self.actor.size.remote()))

    size = __len__ = qsize

    def empty(self) -> bool:
        """Return whether there are none."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Return whether there is no room; never for a queue without `maxsize`."""
        return 0 < self.maxsize <= self.qsize()

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the queue with all that is in it; whoever waits for it gets ActorDiedError.

        Without `force` what this process has asked of it is done first, for at most `grace_period_s` seconds.
        """
        if not force:
            with contextlib.suppress(KernelError):  # late, or gone already
                kernel.get(self.actor.size.remote(), timeout=grace_period_s)
        kernel.kill(self.actor)

    def __bool__(self) -> bool:
        return True  # a queue is there even when it is empty

    def __reduce__(self) -> Any:
        return _rebuild, (self.actor, self.maxsize)

    def __repr__(self) -> str:
        return f"Queue(maxsize={self.maxsize}, {self.actor!r})"

    def _wait(self, ref: kernel.ObjectRef, gets: bool = False) -> Any:
        try:
            return kernel.get(ref)
        except (KeyboardInterrupt, SystemExit):
            self._abandon(ref, gets)
            raise

    async def _wait_async(self, ref: kernel.ObjectRef, gets: bool = False) -> Any:
        import asyncio  # there already, where this is called

        try:
            return await ref
        except asyncio.CancelledError:
            self._abandon(ref, gets)
            raise

    def _abandon(self, ref: kernel.ObjectRef, gets: bool) -> None:
        """Wait no longer; an item that comes all the same goes back."""
        kernel.cancel(ref)
        if gets:
            actor = self.actor

            def give_back(future: Any) -> None:
                if future.exception() is None and future.result():
                    actor.give_back.remote(future.result())

            ref.future().add_done_callback(give_back)


def _rebuild(actor: Any, maxsize: int) -> Queue:
    queue = object.__new__(Queue)
    queue.actor, queue.maxsize = actor, maxsize
    return queue


def _deadline(block: bool, timeout: float | None) -> float | None:
    if block and timeout is not None:
        if timeout < 0:
            raise ValueError(f"timeout must be zero or more seconds, not {timeout!r}")
        return time.monotonic() + timeout
    return None


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
