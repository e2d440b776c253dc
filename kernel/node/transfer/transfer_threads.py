"""Work for threads, and its outcome back in the loop."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kernel.threads import begin_thread
from kernel.transport.reactor import Reactor

Outcome = TypeVar("Outcome")


class TransferThreads:
    """Up to `count` threads, started when there is work, that block so that the loop need not."""

    def __init__(self, reactor: Reactor, count: int, name: str) -> None:
        self._reactor = reactor
        self._count = count
        self._name = name
        self._work: list[tuple[bool, int, Callable[[], Any], Callable[[Any], None] | None]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._closed = False

    def do(
        self,
        work: Callable[[], Outcome],
        then: Callable[[Outcome], None] | None = None,
        urgent: bool = False,
    ) -> None:
        """Call `work` in a thread, what is urgent first, then `then` with the outcome in the loop.

        `work` must not raise. After `close` nothing is done.
        """
        with self._changed:
            if self._closed:
                return
            heapq.heappush(self._work, (not urgent, next(self._order), work, then))
            if self._idle >= len(self._work) or len(self._threads) >= self._count:
                self._changed.notify()
                return
        thread = begin_thread(self._run, f"{self._name}-{len(self._threads)}")
        if thread is not None:
            self._threads.append(thread)
        if self._threads:
            return
        with self._changed:
            _, _, work, then = heapq.heappop(self._work)
        outcome = work()  # there is room for no thread: it is done here and now
        if then is not None:
            self._hand_over(then, outcome)

    def close(self) -> None:
        """Forget what has not begun, and wait for what has. Nothing comes back to the loop any more."""
        with self._changed:
            self._closed = True
            self._work.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._work or self._closed)
                self._idle -= 1
                if self._closed:
                    return
                _, _, work, then = heapq.heappop(self._work)
            outcome = work()
            if then is not None:
                self._hand_over(then, outcome)
            del work, then, outcome  # they hold memory of objects, and the next may be long in coming

    def _hand_over(self, then: Callable[[Any], None], outcome: Any) -> None:
        def call() -> None:
            if not self._closed:
                then(outcome)

        if not self._closed:
            self._reactor.call_later(0.0, call)
            self._reactor.wake()
