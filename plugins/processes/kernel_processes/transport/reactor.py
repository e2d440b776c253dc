"""Run one loop over descriptors and timers. It owns no thread: the thread that calls `poll` runs the loop meanwhile."""

from __future__ import annotations

import heapq
import itertools
import os
import time
from collections.abc import Callable

from kernel_processes.transport.poller import READ, WRITE, make_poller

Handler = Callable[[int], None]


class Reactor:
    """Calls handlers of ready descriptors, then timers that are due.

    Handlers run in the thread that polls. `register`, `call_later` and `wake` may be called from any thread.
    `on_error()` is called while an exception of a timer is handled; unless it is set, `poll` raises that exception.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.on_error: Callable[[], None] = _raise_again
        self._poller = make_poller()
        self._poll = self._poller.poll
        self._handlers: dict[int, Handler] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self.flushing_thread = 0
        """The last thread that wanted to write on a connection while it was writing on it already."""
        self._order = itertools.count()
        self._wake_reader, self._wake_writer = _wake_descriptors()
        self.register(self._wake_reader, self._on_wake)

    def register(self, fd: int, handler: Handler, events: int = READ) -> None:
        """Call `handler(events)` whenever `fd` is ready."""
        self._handlers[fd] = handler
        self._poller.register(fd, events)

    def watch_writes(self, fd: int, wanted: bool) -> None:
        """Start or stop reporting that `fd` accepts bytes."""
        if fd in self._handlers:
            self._poller.modify(fd, READ | WRITE if wanted else READ)

    def unregister(self, fd: int) -> None:
        """Forget `fd`. Must come before it is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._poller.unregister(fd)

    @property
    def watched(self) -> int:
        """The number of descriptors that are watched."""
        return len(self._handlers)

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Call `function` from the loop in `seconds`."""
        heapq.heappush(self._timers, (self.clock() + seconds, next(self._order), function))

    def wake(self) -> None:
        """Make a `poll` that waits in another thread return."""
        try:
            os.write(self._wake_writer, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        except (BlockingIOError, OSError):
            return

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to do (timers apart)."""
        return self._poller.fileno()

    def poll(self, timeout: float = -1.0) -> bool:
        """Wait up to `timeout` seconds (negative: for ever), and handle what is ready. Return whether anything was.

        A signal handler may raise in here: what was not handled is ready still when it is called again.
        """
        timers = self._timers
        if timers:
            due = timers[0][0] - self.clock()
            if timeout < 0 or due < timeout:
                timeout = due if due > 0 else 0.0
        ready = self._poll(timeout)
        handlers = self._handlers
        for fd, events in ready:
            handler = handlers.get(fd)
            if handler is not None:
                handler(events)
        if timers and timers[0][0] <= self.clock():
            self._run_timers()
        return bool(ready)

    def close(self) -> None:
        """Close the loop's own descriptors. In a forked child that leaves the parent's loop as it is."""
        self._handlers.clear()
        self._poller.close()
        os.close(self._wake_reader)
        if self._wake_writer != self._wake_reader:
            os.close(self._wake_writer)

    def _run_timers(self) -> None:
        now = self.clock()
        while self._timers and self._timers[0][0] <= now:
            function = heapq.heappop(self._timers)[2]
            try:
                function()
            except Exception:
                self.on_error()

    def _on_wake(self, events: int) -> None:
        try:
            os.read(self._wake_reader, 4096)
        except BlockingIOError:
            return


def _raise_again() -> None:
    raise  # what is being handled


def _wake_descriptors() -> tuple[int, int]:
    if hasattr(os, "eventfd"):
        fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return fd, fd
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer
