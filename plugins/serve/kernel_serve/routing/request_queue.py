"""The requests that wait for a replica with room, in the order of their arrival."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from kernel_serve.errors import BackPressureError
from kernel_serve.settings import UNLIMITED

T = TypeVar("T")


class RequestQueue(Generic[T]):
    """Is a queue with a limit. A request that a replica refused goes back to the front."""

    def __init__(self, key: str, limit: int = UNLIMITED) -> None:
        self.key = key
        self.limit = limit
        self._waiting: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, request: T) -> None:
        """Add a request at the end. Raises BackPressureError if the queue is full."""
        if self.limit != UNLIMITED and len(self._waiting) >= self.limit:
            raise self.refusal()
        self._waiting.append(request)

    def refusal(self) -> BackPressureError:
        """Return the error for a request that may not wait."""
        return BackPressureError(
            f"deployment {self.key} has {len(self._waiting)} requests waiting here, as many as "
            f"max_queued_requests={self.limit} lets; try again later, or give it more replicas"
        )

    def last_of_too_many(self, besides: int) -> T | None:
        """Remove and return the last request, if more than the limit and `besides` wait; else return None.

        `besides` is the number of requests for which replicas have room.
        """
        return self._waiting.pop() if self.limit != UNLIMITED and len(self) > self.limit + besides else None

    def rejoin(self, request: T) -> None:
        """Add a request at the front: it was there before."""
        self._waiting.appendleft(request)

    def next(self) -> T | None:
        """Remove and return the first request, None if the queue is empty."""
        return self._waiting.popleft() if self._waiting else None

    def leave(self, request: T) -> None:
        """Remove a request."""
        try:
            self._waiting.remove(request)
        except ValueError:
            return
