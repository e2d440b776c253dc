"""The requests that wait for a replica with room, in the order in which they came."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from kernel_serve.errors import BackPressureError
from kernel_serve.settings import UNLIMITED

T = TypeVar("T")


class RequestQueue(Generic[T]):
    """A queue with a limit. One that was at the front already (a replica refused it) goes back to the front."""

    def __init__(self, key: str, limit: int = UNLIMITED) -> None:
        self.key = key
        self.limit = limit
        self._waiting: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, request: T) -> None:
        """Wait at the end. Raises BackPressureError when as many wait as may."""
        if self.limit != UNLIMITED and len(self._waiting) >= self.limit:
            raise self.refusal()
        self._waiting.append(request)

    def refusal(self) -> BackPressureError:
        """Return what to tell one that may not wait."""
        return BackPressureError(
            f"deployment {self.key} has {len(self._waiting)} requests waiting here, as many as "
            f"max_queued_requests={self.limit} lets; try again later, or give it more replicas"
        )

    def last_of_too_many(self, besides: int) -> T | None:
        """Take the last, if more wait than may `besides` those for whom there is room; else return None."""
        return self._waiting.pop() if self.limit != UNLIMITED and len(self) > self.limit + besides else None

    def rejoin(self, request: T) -> None:
        """Wait at the front: this request was there before."""
        self._waiting.appendleft(request)

    def next(self) -> T | None:
        """Take the first, None if nobody waits."""
        return self._waiting.popleft() if self._waiting else None

    def leave(self, request: T) -> None:
        """Wait no more."""
        try:
            self._waiting.remove(request)
        except ValueError:
            return
