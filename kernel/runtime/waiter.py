"""The waiting of a blocked thread, until a number of events has happened."""

from __future__ import annotations

import threading


class Waiter:
    """Count down the things that a blocked thread waits for. Call `complete` under the process's lock.

    With `until_failure` the first failure ends the wait as well, and sets `failed`.
    """

    __slots__ = ("failed", "remaining", "signal", "until_failure")

    def __init__(self, remaining: int = 1, until_failure: bool = False) -> None:
        self.remaining = remaining
        self.signal: threading.Lock | None = None
        self.until_failure = until_failure
        self.failed = False

    def complete(self) -> None:
        """Count one thing as done; wake the thread when it was the last."""
        self.remaining -= 1
        if self.remaining <= 0 and self.signal is not None:
            self.poke()

    def fail(self) -> None:
        """Count one thing as done, and as failed."""
        if self.until_failure:
            self.failed = True
            self.remaining = 1
        self.complete()

    def poke(self) -> None:
        """Wake the thread if it is parked."""
        signal = self.signal
        if signal is not None:
            release(signal)


def release(signal: threading.Lock) -> None:
    """Release a lock that another thread waits for, or will wait for; do nothing if it is free already."""
    if signal.locked():
        try:
            signal.release()
        except RuntimeError:  # another thread did it between the two lines
            return
