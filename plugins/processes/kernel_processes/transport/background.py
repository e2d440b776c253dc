"""Run work that may take long in threads, and report the results in the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kernel_processes.system.daemon_pool import DaemonPool
from kernel_processes.transport.reactor import Reactor

T = TypeVar("T")


class Background:
    """Does jobs in up to `count` threads called `name`, which start when there is work. One thread keeps the order."""

    def __init__(self, reactor: Reactor, name: str, count: int = 1) -> None:
        self._reactor = reactor
        self._pool = DaemonPool(count, name, reactor.clock)
        self._closed = False

    def do(
        self, work: Callable[[], T], then: Callable[[T | Exception], None] | None = None, urgent: bool = False
    ) -> None:
        """Run `work` in a thread, and then call `then` from the loop with its result or its error.

        Urgent work goes before other waiting work. After `close` nothing is run.
        """

        def job() -> None:
            outcome: T | Exception
            try:
                outcome = work()
            except Exception as error:
                outcome = error
            if then is not None and not self._closed:
                self._reactor.call_later(0.0, lambda: self._tell(then, outcome))
                self._reactor.wake()

        self._pool.begin(job, urgent)

    def close(self, seconds: float | None = None) -> None:
        """Start no further job, and wait up to `seconds` (None: without limit) for running ones.

        No results are reported in the loop any more.
        """
        self._closed = True
        self._pool.close(seconds)

    def _tell(self, then: Callable[[T | Exception], None], outcome: T | Exception) -> None:
        if not self._closed:
            then(outcome)
