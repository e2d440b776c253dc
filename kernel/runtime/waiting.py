"""Waiting for messages without a thread hop.

A thread that blocks (in `get`, or a worker without work) polls the sockets itself: it takes the *seat*. Others that
block meanwhile are parked and told when their wait is over, or when the seat is free. When nobody blocks, one
background thread takes the seat, but only after a few milliseconds of quiet, so that it never stands in the way of
a program that calls `get` in a loop. While it stays out of the way it still flushes what was queued.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from kernel.transport.reactor import Reactor

LURK_SECONDS = 0.003
"""How often the background thread looks while others poll; also the longest a queued message waits for a flush."""

IDLE_SECONDS = 0.25
"""How often the background thread looks after what was dropped (references, streams) when nothing else happens."""


class Waiter:
    """Counts down what a blocked thread waits for. `complete` is called under the process's lock."""

    __slots__ = ("remaining", "signal")

    def __init__(self, remaining: int = 1) -> None:
        self.remaining = remaining
        self.signal: threading.Lock | None = None

    def complete(self) -> None:
        """One thing less; wake the thread when nothing is left."""
        self.remaining -= 1
        if self.remaining <= 0:
            self.poke()

    def poke(self) -> None:
        """Wake the thread if it is parked."""
        signal = self.signal
        if signal is not None and signal.locked():
            try:
                signal.release()
            except RuntimeError:  # another thread poked it between the two lines
                return


class Pump:
    """Decides which thread polls the reactor. `flush` writes what is queued on every connection."""

    def __init__(self, reactor: Reactor, flush: Callable[[], None], name: str) -> None:
        self._reactor = reactor
        self._flush = flush
        self._seat = threading.Lock()
        self._parked: deque[Waiter] = deque()
        self._foreground = 0
        self._in_background = False
        self._wanted = 0
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._stopped = False
        self._loop_polls = False
        self.lurking = False
        self._thread = threading.Thread(target=self._background, name=f"{name}-io", daemon=True)
        self.on_tick: Callable[[], None] | None = None
        self.check_interrupt: Callable[[], None] = lambda: None
        self._main = threading.main_thread().ident
        self._main_inside = 0
        self._main_parked = False

    def start(self) -> None:
        """Start the background thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the background thread and wait for it."""
        self._stopped = True
        self._ring()
        self._reactor.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def wait(self, waiter: Waiter, deadline: float | None = None) -> bool:
        """Poll or park until `waiter` has nothing left or `deadline` (monotonic seconds); return whether it has not."""
        if threading.get_ident() != self._main:
            return self._wait(waiter, deadline)
        self._main_inside += 1
        try:
            return self._wait(waiter, deadline)
        finally:
            self._main_inside -= 1

    def may_interrupt(self) -> bool:
        """Return whether a signal handler may raise in the main thread: outside of here, or where it only waits."""
        return not self._main_inside or self._main_parked or self._reactor.waiting_thread == self._main

    def _wait(self, waiter: Waiter, deadline: float | None) -> bool:
        while waiter.remaining > 0:
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return False
            if self._take_seat(waiter):
                try:
                    self._poll_until(waiter, deadline)
                finally:
                    self._leave_seat()
            else:
                self._park(waiter, remaining)
                self.check_interrupt()
        return True

    def nudge(self) -> None:
        """Make sure that what was just queued is flushed soon, though nobody is about to block."""
        if not self.lurking:
            self.lurking = True
            self._ring()
            if self._in_background:
                self._reactor.wake()

    def poll_now(self) -> None:
        """Handle what has arrived without waiting, if no other thread is doing so."""
        if self._seat.acquire(blocking=False):
            try:
                self._foreground += 1
                self._reactor.poll(0)
            finally:
                self._leave_seat()

    def yield_to_loop(self, yes: bool) -> None:
        """While an event loop polls for us (`poll_now`), the background thread only helps out when that is stuck."""
        self._loop_polls = yes

    # -- the seat --------------------------------------------------------------------------------------------------

    def _take_seat(self, waiter: Waiter) -> bool:
        if self._seat.acquire(blocking=False):
            return True
        if not self._in_background:
            return False
        self._wanted += 1
        try:
            self._reactor.wake()
            return self._seat.acquire(timeout=0.05)
        finally:
            self._wanted -= 1

    def _poll_until(self, waiter: Waiter, deadline: float | None) -> None:
        poll = self._reactor.poll
        while waiter.remaining > 0:
            self._flush()
            self.check_interrupt()
            self._foreground += 1
            if deadline is None:
                poll(-1.0)
            else:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return
                poll(remaining)

    def _leave_seat(self) -> None:
        self._seat.release()
        while self._parked:
            try:
                follower = self._parked.popleft()
            except IndexError:
                break
            if follower.remaining > 0:
                follower.poke()
                return
        if not self.lurking:
            self.lurking = True
            self._ring()

    def _park(self, waiter: Waiter, timeout: float | None) -> None:
        signal = threading.Lock()
        signal.acquire()
        waiter.signal = signal
        self._parked.append(waiter)
        # The seat may have been freed, or the wait ended, just before we were in line.
        if waiter.remaining > 0 and self._seat.locked():
            is_main = threading.get_ident() == self._main
            try:
                self._main_parked = self._main_parked or is_main
                signal.acquire(timeout=min(timeout, 0.5) if timeout is not None else 0.5)
            finally:
                self._main_parked = self._main_parked and not is_main
        waiter.signal = None
        if waiter in self._parked:
            try:
                self._parked.remove(waiter)
            except ValueError:
                return

    def _ring(self) -> None:
        if self._alarm.locked():
            try:
                self._alarm.release()
            except RuntimeError:
                return

    # -- the background thread -------------------------------------------------------------------------------------

    def _background(self) -> None:
        seen = -1
        while not self._stopped:
            if self._foreground != seen or self._wanted:
                seen = self._foreground
                self.lurking = True
                time.sleep(LURK_SECONDS)
                self._flush()
                self._tick()
            elif self._loop_polls:
                self.lurking = False
                self._alarm.acquire(timeout=0.05)
                self.poll_now()
                seen = self._foreground
                self._flush()
                self._tick()
            elif self._seat.acquire(blocking=False):
                try:
                    self._poll_in_background()
                finally:
                    self._seat.release()
                    self._hand_over()
            else:
                # Somebody polls for long: sleep until they leave or something is queued.
                self.lurking = False
                self._alarm.acquire(timeout=0.1)
                self._flush()
                self._tick()

    def _poll_in_background(self) -> None:
        self._in_background = True
        self.lurking = False
        try:
            while not self._wanted and not self._stopped and not self.lurking:
                self._flush()
                self._reactor.poll(IDLE_SECONDS)
                self._tick()
        finally:
            self._in_background = False
            if self.lurking:
                self._foreground += 1

    def _hand_over(self) -> None:
        if self._parked:
            try:
                self._parked[0].poke()
            except IndexError:
                return

    def _tick(self) -> None:
        if self.on_tick is not None:
            self.on_tick()
