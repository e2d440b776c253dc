"""Work that may take long, done beside a loop: in a thread of its own, with what came of it told in the loop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from kernel.threads import begin_thread
from kernel.transport.reactor import Reactor

T = TypeVar("T")


class Background:
    """Does jobs one after another in a thread, which starts with the first of them.

    The thread is a daemon: a disk that hangs doesn't hold up the end of the process. `name` is the thread's. Where no
    thread can be started (`ulimit -u`), jobs are done at once by whoever asks: better late than never.
    """

    def __init__(self, reactor: Reactor, name: str) -> None:
        self._reactor = reactor
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def do(self, work: Callable[[], T], then: Callable[[T | Exception], None] = lambda outcome: None) -> None:
        """Have `work` done in the thread, and then call `then` from the loop with what it returned or raised."""

        def job() -> None:
            outcome: T | Exception
            try:
                outcome = work()
            except Exception as error:
                outcome = error
            if not self._closed:
                self._reactor.call_later(0.0, lambda: then(outcome))
                self._reactor.wake()

        if self._thread is None and not self._closed:
            self._thread = begin_thread(self._serve, self._name)
        if self._thread is None and not self._closed:
            job()
        else:
            self._jobs.put(job)

    def close(self, seconds: float) -> None:
        """Begin no further job, and wait up to `seconds` for the one under way; the loop hears of nothing more."""
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(seconds)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed:
            job()
