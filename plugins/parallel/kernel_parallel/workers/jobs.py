"""Jobs of callers: one call, or a function over many items. A job is cut into chunks, and gathers results."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_parallel.workers.chunks import chunk_size
from kernel_spec.dataclass import dataclass

CALL, MAP, STARMAP = "call", "map", "starmap"
"""How a worker applies the function: once to (args, kwargs), or to each item, or to each item's parts."""

Done = Callable[[bool, Any], None]
"""Told how it went: True and the value, or False and the error."""


@dataclass(slots=True, eq=False)
class Chunk:
    """The work that one message gives to a worker. `place` says where in the job it belongs."""

    job: ChunkJob
    place: int
    items: Any
    size: int = 1
    attempts: int = 0


class ChunkJob(ABC):
    """A job of a dispatcher, which calls `take` under its lock, the rest from any thread without."""

    reference: Any = None
    """A stored copy of the function that the chunks share; None: the function travels as it is."""

    def __init__(self, function: Callable[..., Any], how: str) -> None:
        self.function = function
        self.how = how

    @abstractmethod
    def take(self, workers: int) -> Chunk | None:
        """Return the next chunk, for one of so many workers; None when there is none (now)."""

    @abstractmethod
    def waiting(self) -> int:
        """Return how many chunks can be taken."""

    @abstractmethod
    def settle(self, chunk: Chunk, ok: bool, value: Any) -> bool:
        """Note a chunk's results (a list, or for a call its value) or its error; return whether the job is over."""

    @abstractmethod
    def cancel(self, error: BaseException) -> None:
        """End the job with this error: nothing more will come."""

    def learn(self, seconds_per_item: float) -> None:  # noqa: B027 - most have no use for it
        """Note what an item takes."""


class CallJob(ChunkJob):
    """One call. `starts()` is asked before it is sent, and drops it by False."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        done: Done,
        starts: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(function, CALL)
        self._done = done
        self._starts = starts
        self._chunk: Chunk | None = Chunk(self, 0, (args, kwargs))

    def take(self, workers: int) -> Chunk | None:
        """See `ChunkJob.take`."""
        chunk, self._chunk = self._chunk, None
        return chunk if chunk is not None and self._starts() else None

    def waiting(self) -> int:
        """See `ChunkJob.waiting`."""
        return self._chunk is not None

    def settle(self, chunk: Chunk, ok: bool, value: Any) -> bool:
        """See `ChunkJob.settle`."""
        self._done(ok, value)
        return True

    def cancel(self, error: BaseException) -> None:
        """See `ChunkJob.cancel`."""
        taken, self._chunk = self._chunk is None, None
        if taken or self._starts():
            self._done(False, error)


class MapJob(ChunkJob):
    """A function over all items of a sequence. All chunks run, and the first error that comes is the job's."""

    def __init__(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        how: str,
        done: Done,
        chunksize: int | None = None,
        seconds_per_item: float | None = None,
    ) -> None:
        super().__init__(function, how)
        self._items = items
        self._count = len(items)
        self._chunksize = chunksize
        self._seconds = seconds_per_item
        self._done = done
        self._taken = 0
        self._left = self._count
        self._results: list[Any] = [None] * self._count
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def take(self, workers: int) -> Chunk | None:
        """See `ChunkJob.take`."""
        begin = self._taken
        if begin == self._count:
            return None
        size = self._chunksize or chunk_size(self._count, self._count - begin, workers, self._seconds)
        self._taken = end = min(begin + size, self._count)
        items = self._items[begin:end]
        if end == self._count:
            self._items = ()
        return Chunk(self, begin, items, end - begin)

    def waiting(self) -> int:
        """See `ChunkJob.waiting`: without a fixed size of chunks, one, for that grows by itself."""
        left = self._count - self._taken
        return -(-left // self._chunksize) if self._chunksize else min(left, 1)

    def learn(self, seconds_per_item: float) -> None:
        """See `ChunkJob.learn`."""
        self._seconds = seconds_per_item

    def settle(self, chunk: Chunk, ok: bool, value: Any) -> bool:
        """See `ChunkJob.settle`."""
        with self._lock:
            if not ok:
                self._error = self._error or value
            elif self._error is None:
                self._results[chunk.place : chunk.place + chunk.size] = value
            self._left -= chunk.size
            if self._left:
                return False
            results, self._results = self._results, []
        self._done(self._error is None, self._error or results)
        return True

    def cancel(self, error: BaseException) -> None:
        """See `ChunkJob.cancel`."""
        with self._lock:
            self._taken, self._items, self._results = self._count, (), []
        self._done(False, error)


class FedJob(ChunkJob):
    """A function over chunks that a feeder brings while it runs; `each(place, ok, value)` is told of every chunk.

    `feed` waits while `ahead` chunks are waiting, so that no more is read than is worked on.
    """

    def __init__(
        self, function: Callable[..., Any], how: str, each: Callable[[int, bool, Any], None], ahead: int
    ) -> None:
        super().__init__(function, how)
        self._each = each
        self._ahead = ahead
        self._waiting: deque[Chunk] = deque()
        self._fed = 0
        self._open = 0
        self._ended = False
        self._cancelled: BaseException | None = None
        self._changed = threading.Condition()

    def feed(self, items: Sequence[Any]) -> bool:
        """Add a chunk as soon as there is room; return False when the job was cancelled."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < self._ahead or self._cancelled is not None)
            if self._cancelled is not None:
                return False
            self._waiting.append(Chunk(self, self._fed, items, len(items)))
            self._fed += 1
            self._open += 1
            return True

    def end(self) -> bool:
        """Say that nothing more is fed; return whether the job is over with that."""
        with self._changed:
            self._ended = True
            return not self._open

    @property
    def fed(self) -> int:
        """How many chunks were fed."""
        return self._fed

    def take(self, workers: int) -> Chunk | None:
        """See `ChunkJob.take`."""
        with self._changed:
            if not self._waiting:
                return None
            self._changed.notify_all()
            return self._waiting.popleft()

    def waiting(self) -> int:
        """See `ChunkJob.waiting`."""
        return len(self._waiting)

    def settle(self, chunk: Chunk, ok: bool, value: Any) -> bool:
        """See `ChunkJob.settle`."""
        self._each(chunk.place, ok, value)
        with self._changed:
            self._open -= 1
            return self._ended and not self._open

    def cancel(self, error: BaseException) -> None:
        """See `ChunkJob.cancel`."""
        with self._changed:
            self._cancelled = error
            self._waiting.clear()
            self._changed.notify_all()
        self._each(-1, False, error)
