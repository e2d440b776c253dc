"""Wait for messages without a thread hop: threads that block take turns at polling (the leader/followers pattern).

A thread that blocks (in `get`, or a worker without work) polls the sockets itself: it holds the *poll lock*. Other
threads that block meanwhile are parked. They are woken when their wait is over, or when the poll lock is free. When no
thread blocks, one background thread polls, but only after a few milliseconds of quiet (it *backs off*), so that it
never stands in the way of a program that calls `get` in a loop. While it backs off it still flushes what was queued.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import monotonic

from kernel.runtime.critical_sections import Interrupted, catches_interrupts, critical, holds_lock
from kernel.runtime.waiter import Waiter, release
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import SessionEndedError, UsageError

BACK_OFF_SECONDS = 0.003
"""Seconds between two looks of the background thread while other threads poll.

A queued message waits no longer than this for its flush."""

IDLE_SECONDS = 0.25
"""Seconds between two looks of the background thread for dropped references and streams, when nothing else happens."""

_STUCK_SECONDS = 0.05
"""Seconds between two checks of the background thread that an event loop still polls."""

_MOMENT_SECONDS = 0.001

_LOOK_SECONDS = 0.5
"""The longest single wait in seconds. After it Python looks for signals again, and this module for interrupts.

A signal that arrives between Python's last look and the beginning of a wait does not end that wait."""


_NEVER = (
    "this wait would never end: it was begun in a destructor (__del__) or callback that runs amid the kernel's own "
    "work in this thread, as when Python collects garbage just there. Let that only send (`.remote()`, `kernel.kill`), "
    "or wait in a method that the program calls"
)


def sleep(signal: threading.Lock, seconds: float) -> None:
    """Wait for a poke, at most `seconds`. A signal's handler may raise here."""
    signal.acquire(timeout=seconds)


class MessagePump:
    """Decides which thread polls the reactor. `flush` writes the queued messages of every connection."""

    def __init__(self, reactor: Reactor, flush: Callable[[], None], name: str) -> None:
        self._reactor = reactor
        self._flush = flush
        self._poll_lock = threading.Lock()
        self._polling = 0
        """The thread that holds the poll lock and polls; 0 when no thread does."""
        self._parked: deque[Waiter] = deque()
        self._foreground = 0
        self._in_background = False
        self._wanted = 0
        self._promptly = False
        """Whether a caller waits that can't poll: then the background thread polls without backing off."""
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._hurry = threading.Lock()
        self._hurry.acquire()
        self._stopped = False
        self._loop_polls = False
        self.backing_off = False
        self._thread = threading.Thread(target=self._background, name=f"{name}-io", daemon=True)
        self.on_tick: Callable[[], None] | None = None
        self.interrupts: dict[int, BaseException] = {}
        """Thread to the exception that is kept until it can be interrupted; `raise_interrupt` raises it there."""
        self.raise_interrupt: Callable[[], None] = lambda: None

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

    @critical
    def wait(self, waiter: Waiter, deadline: float | None = None) -> bool:
        """Poll or park until `waiter` is done or `deadline` (monotonic seconds) has passed; return whether it is done.

        Raises SessionEndedError when the pump was stopped and its reactor closed. Raises UsageError in a destructor
        that interrupts the very work of this thread that would end the wait.
        """
        interrupted: Interrupted | None = None
        if waiter.remaining > 0 and (self._polling == get_ident() or holds_lock()):
            raise UsageError(_NEVER)
        while waiter.remaining > 0:
            try:
                if self._poll_lock.acquire(False) or self._take_poll_lock_from_background():
                    try:
                        if not self._poll_until(waiter, deadline):
                            return False
                    except (OSError, ValueError) as error:  # Another thread closed the polled descriptor.
                        if not self._stopped:
                            raise
                        raise SessionEndedError("the session was shut down while this thread waited") from error
                    finally:
                        self._leave_poll_lock()
                else:
                    remaining = None if deadline is None else deadline - monotonic()
                    if remaining is not None and remaining <= 0:
                        return False
                    self._park(waiter, remaining)
            except Interrupted as error:
                interrupted = error
            if interrupted is not None:
                interrupted.deliver()
                interrupted = None
            if self.interrupts:
                self.raise_interrupt()
        return True

    def flush_soon(self) -> None:
        """Flush queued messages soon, although no thread is about to block."""
        if not self.backing_off:
            self.backing_off = True
            self._ring()
            if self._in_background:
                self._reactor.wake()

    def answer_promptly(self) -> None:
        """Flush and poll at once: another process, or a caller that can't poll itself, waits for the answer."""
        if self._loop_polls:
            return  # The loop does both, and gets help when it is stuck.
        self._flush()
        self._promptly = True
        if self.backing_off or not self._in_background:
            release(self._hurry)

    @critical
    @catches_interrupts(Reactor.poll)
    def poll_now(self) -> None:
        """Handle what has arrived, without waiting for more. Does nothing while another thread does so."""
        # If another thread polls for a moment only, wait for that: a loop would come back at once, and spin.
        interrupted: Interrupted | None = None
        if self._poll_lock.acquire(False) or self._poll_lock.acquire(timeout=_MOMENT_SECONDS):
            try:
                self._polling = get_ident()
                self._foreground += 1
                self._reactor.poll(0)
            except Interrupted as error:
                interrupted = error
            finally:
                self._leave_poll_lock()
        if interrupted is not None:
            interrupted.deliver()
        if self.interrupts:
            self.raise_interrupt()

    def look_for_interrupts(self) -> None:
        """Make waiting threads check whether they are interrupted."""
        for waiter in list(self._parked):
            waiter.poke()
        self._reactor.wake()

    def yield_to_loop(self, yes: bool) -> None:
        """Say whether an event loop polls (`poll_now`): if so, the background thread polls only while that is stuck."""
        self._loop_polls = yes
        self._reactor.wake()

    # -- the poll lock ---------------------------------------------------------------------------------------------

    def _take_poll_lock_from_background(self) -> bool:
        if not self._in_background:
            return False
        self._wanted += 1
        try:
            self._reactor.wake()
            return self._poll_lock.acquire(timeout=0.05)
        finally:
            self._wanted -= 1

    @catches_interrupts(Reactor.poll)
    def _poll_until(self, waiter: Waiter, deadline: float | None) -> bool:
        poll = self._reactor.poll
        self._polling = get_ident()
        while waiter.remaining > 0:
            self._flush()
            if self._reactor.flushing_thread:
                self._check_flush()
            self._foreground += 1
            seconds = _LOOK_SECONDS
            if deadline is not None:
                remaining = deadline - monotonic()
                if remaining <= 0:
                    return False
                if remaining < seconds:
                    seconds = remaining
            if self.interrupts:
                self.raise_interrupt()
            poll(seconds)
        return True

    def _check_flush(self) -> None:
        """Raise UsageError if this thread could not write, because it is writing already further up its stack."""
        if self._reactor.flushing_thread == get_ident():
            self._reactor.flushing_thread = 0
            raise UsageError(_NEVER)

    def _leave_poll_lock(self) -> None:
        self._polling = 0
        self._poll_lock.release()
        while self._parked:
            try:
                follower = self._parked.popleft()
            except IndexError:
                break
            if follower.remaining > 0:
                follower.poke()
                return
        if not self.backing_off and not self._loop_polls:
            self.backing_off = True
            self._ring()

    @catches_interrupts(sleep)
    def _park(self, waiter: Waiter, timeout: float | None) -> None:
        self._flush()  # This thread may wait for the answer to a message that is still queued.
        if self._reactor.flushing_thread:
            self._check_flush()
        signal = threading.Lock()
        signal.acquire()
        waiter.signal = signal
        self._parked.append(waiter)
        # The poll lock may have been released, or the wait ended, just before this thread was parked.
        if waiter.remaining > 0 and self._poll_lock.locked():
            try:
                sleep(signal, min(timeout, _LOOK_SECONDS) if timeout is not None else _LOOK_SECONDS)
            finally:
                self._unpark(waiter)
        else:
            self._unpark(waiter)

    def _unpark(self, waiter: Waiter) -> None:
        waiter.signal = None
        if waiter in self._parked:
            try:
                self._parked.remove(waiter)
            except ValueError:
                return

    def _ring(self) -> None:
        release(self._alarm)

    # -- the background thread -------------------------------------------------------------------------------------

    def _background(self) -> None:
        seen = -1
        while not self._stopped:
            try:
                if self._loop_polls:
                    self._help_loop()
                elif self._wanted or (self._foreground != seen and not self._promptly):
                    seen = self._foreground
                    self._back_off()
                else:
                    self._take_over()
            except Exception:
                self._reactor.on_error()
                time.sleep(BACK_OFF_SECONDS)

    def _back_off(self) -> None:
        """Leave polling to the others for a moment, but flush."""
        self.backing_off = True
        self._hurry.acquire(timeout=BACK_OFF_SECONDS)
        self._flush()
        self._tick()

    def _take_over(self) -> None:
        if self._poll_lock.acquire(blocking=False):
            try:
                self._polling = get_ident()
                self._poll_in_background()
            finally:
                self._polling = 0
                self._poll_lock.release()
                self._hand_over()
        else:
            # Another thread polls for long: sleep until it stops or something is queued.
            self.backing_off = False
            self._alarm.acquire(timeout=0.1)
            self._flush()
            self._tick()

    def _help_loop(self) -> None:
        """Flush what threads beside the event loop have queued, and poll when the loop is stuck in a long call."""
        seen = self._foreground
        self.backing_off = False
        self._alarm.acquire(timeout=_STUCK_SECONDS)
        self._flush()
        if self._foreground == seen:
            self.poll_now()
        self._tick()

    def _poll_in_background(self) -> None:
        self._in_background = True
        self.backing_off = False
        try:
            while not (self._wanted or self._stopped or self.backing_off or self._loop_polls):
                self._flush()
                self._reactor.poll(IDLE_SECONDS)
                self._promptly = False
                self._tick()
        finally:
            self._in_background = False
            if self.backing_off:
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
