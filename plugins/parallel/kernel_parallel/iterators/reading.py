"""Reading one shard: requests to its worker actor, and the items that have come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import kernel
from kernel.exceptions import ActorError, GetTimeoutError, TaskError
from kernel_parallel.iterators.batches import Batching
from kernel_parallel.iterators.errors import ShardDiedError

Request = Callable[[int, "float | None"], Any]


class ShardReader:
    """What one process has asked of a shard and has not used yet.

    actor: the handle. name: the shard's, for errors. request: asks for a batch. batching: how large, how early.
    """

    def __init__(self, actor: Any, name: str, batching: Batching, request: Request | None = None) -> None:
        self.actor = actor
        self.name = name
        self._batching = batching
        self._request = request or actor.par_iter_next_batch.remote
        self._asked: deque[Any] = deque()
        self._items: deque[Any] = deque()
        self._number = 0
        self._given = 0
        self._over = False

    @property
    def refs(self) -> list[Any]:
        """The requests whose answers have not come."""
        return list(self._asked)

    @property
    def has_items(self) -> bool:
        """Whether an item is here."""
        return bool(self._items)

    @property
    def over(self) -> bool:
        """Whether there is nothing more to read."""
        return self._over and not self._items

    def ask(self) -> Any:
        """Send a request for the next batch and return its reference; None when the shard has no more items."""
        if self._over:
            return None
        size = self._batching.size(self._number)
        self._number += 1
        ref = self._guarded(lambda: self._request(size, self._batching.seconds))
        self._asked.append(ref)
        return ref

    def ask_early(self) -> Any:
        """Send a request before the items that are here are used, if the shard may run ahead; else return None."""
        return self.ask() if self._batching.ahead else None

    def ask_late(self) -> Any:
        """Send a request now that the items that were here are used, unless that was done early."""
        return None if self._batching.ahead else self.ask()

    def ask_when_idle(self) -> None:
        """Send a request unless one is on its way or an item is here."""
        if not self._asked and not self._items:
            self.ask()

    def receive(self, timeout: float | None = None) -> bool:
        """Wait for the answer to the oldest request; return whether it came within `timeout` seconds."""
        try:
            items, more = self._guarded(lambda: kernel.get(self._asked[0], timeout=timeout))
        except GetTimeoutError as error:
            if isinstance(error, TaskError):
                self._asked.popleft()
                raise
            return False
        except BaseException:
            self._asked.popleft()
            raise
        self._asked.popleft()
        self._items.extend(items)
        self._over = self._over or not more
        return True

    def take(self) -> Any:
        """Return the next item that is here."""
        self._given += 1
        return self._items.popleft()

    def take_all(self) -> list[Any]:
        """Return all items that are here."""
        items = list(self._items)
        self._items.clear()
        self._given += len(items)
        return items

    def _guarded(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except ActorError as error:
            if isinstance(error, TaskError):
                raise
            raise ShardDiedError(
                f"{self.name} died after {self._given} items were read of it: {error}. What it had not given is lost; "
                "read a new iterator, with a new actor for the shard",
                self.name,
            ) from error


def begin(readers: list[ShardReader], steps: list[Any]) -> None:
    """Begin the iteration of shards with these steps for each, all at once."""
    refs = [
        reader._guarded(lambda r=reader, s=own: r.actor.par_iter_init.remote(s))  # type: ignore[misc]
        for reader, own in zip(readers, steps, strict=True)
    ]
    for reader, ref in zip(readers, refs, strict=True):
        reader._guarded(lambda r=ref: kernel.get(r))  # type: ignore[misc]
