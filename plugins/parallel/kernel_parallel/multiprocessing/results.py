"""Results of the asynchronous methods of a pool; they behave as those of the standard library."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import TimeoutError
from typing import Any

_log = logging.getLogger(__name__)

Callback = Callable[[Any], object]


class AsyncResult:
    """The result of a call or a map that runs in the background."""

    def __init__(self, callback: Callback | None = None, error_callback: Callback | None = None) -> None:
        self._event = threading.Event()
        self._callback = callback
        self._error_callback = error_callback
        self._success = False
        self._value: Any = None
        self._lock = threading.Lock()
        self._set_once = False

    def ready(self) -> bool:
        """Return whether it is over."""
        return self._event.is_set()

    def successful(self) -> bool:
        """Return whether it went well. Raises ValueError while it is not over."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return self._success

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is over, at most `timeout` seconds."""
        self._event.wait(timeout)

    def get(self, timeout: float | None = None) -> Any:
        """Return the result, or raise what the function raised.

        Raises multiprocessing.TimeoutError when it is not over after `timeout` seconds.
        """
        if not self._event.wait(timeout):
            raise TimeoutError
        if self._success:
            return self._value
        raise self._value

    def _set(self, ok: bool, value: Any) -> None:
        with self._lock:
            if self._set_once:
                return
            self._set_once = True
        self._success, self._value = ok, value
        callback = self._callback if ok else self._error_callback
        self._callback = self._error_callback = None
        if callback is not None:
            try:
                callback(value)
            except Exception:
                _log.exception("a callback of a pool raised; its result is there all the same")
        self._event.set()


ApplyResult = AsyncResult  # as the standard library has it
MapResult = AsyncResult


MOST_UNREAD = 10_000
"""How many chunks of results may wait for their reader before no more is read of the iterable."""


class IMapIterator(Iterator[Any]):
    """The results of `imap`, in order, as they come. Any thread may take some."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._arrived: dict[int, tuple[bool, Any]] = {}
        self._items: deque[Any] = deque()
        self._next_chunk = 0
        self._chunks: int | None = None
        self._broken: BaseException | None = None

    def __iter__(self) -> IMapIterator:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """Return the next result, or raise what the function raised for its chunk.

        Raises StopIteration at the end, multiprocessing.TimeoutError after `timeout` seconds without one.
        """
        with self._changed:
            if not self._changed.wait_for(self._has_news, timeout):
                raise TimeoutError
            if self._items:
                return self._items.popleft()
            if self._chunks is not None and self._next_chunk >= self._chunks:
                raise StopIteration
            if not self._may_go_on():
                assert self._broken is not None
                raise self._broken
            ok, value = self._take()
            self._next_chunk += 1
            self._changed.notify_all()
            if not ok:
                raise value
            self._items.extend(value)
            return self._items.popleft()

    def _has_news(self) -> bool:
        ended = self._chunks is not None and self._next_chunk >= self._chunks
        return bool(self._items or ended or self._broken or self._may_go_on())

    def _may_go_on(self) -> bool:
        return self._next_chunk in self._arrived

    def _take(self) -> tuple[bool, Any]:
        return self._arrived.pop(self._next_chunk)

    def _has_room(self, timeout: float) -> bool:
        """Return whether few results are unread, as soon as that is so or when `timeout` seconds are over."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._arrived) < MOST_UNREAD, timeout)

    def _set(self, place: int, ok: bool, value: Any) -> None:
        """Note a chunk's results or its error; a negative place is an error that ends everything."""
        with self._changed:
            if place < 0:
                self._broken = value
            else:
                self._arrived[place] = (ok, value)
            self._changed.notify_all()

    def _end(self, chunks: int) -> None:
        """Say how many chunks there are."""
        with self._changed:
            self._chunks = chunks
            self._changed.notify_all()


class IMapUnorderedIterator(IMapIterator):
    """The results of `imap_unordered`, as they come."""

    def _may_go_on(self) -> bool:
        return bool(self._arrived)

    def _take(self) -> tuple[bool, Any]:
        return self._arrived.pop(next(iter(self._arrived)))
