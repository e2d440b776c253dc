"""Keeps the leases of what this process holds alive, from one thread, while the process and the holder live."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Protocol

_SHARE = 3
"""A lease is renewed so many times before it would end."""


class Held(Protocol):
    """A holder of leases."""

    def renew_due(self, now: float) -> float | None:
        """Renew what is due; return when to look again, by `time.monotonic()`, None when nothing is held."""


class Renewer:
    """A thread that renews, while there is something to renew. What nobody refers to any more is not renewed."""

    def __init__(self) -> None:
        self._held: weakref.WeakSet[Held] = weakref.WeakSet()
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, held: Held) -> None:
        """Renew this from now on, until it says that it holds nothing."""
        with self._condition:
            self._held.add(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lease-renewer", daemon=True)
                self._thread.start()
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                members = list(self._held)
                if not members:
                    self._thread = None
                    return
            now = time.monotonic()
            looks = []
            for held in members:
                look = held.renew_due(now)
                if look is None:
                    with self._condition:
                        self._held.discard(held)
                else:
                    looks.append(look)
            del members, held  # what nobody else refers to must be able to go
            with self._condition:
                self._condition.wait(max(0.005, min(looks) - time.monotonic()) if looks else 0)


def interval(lease: float) -> float:
    """Return how often a lease of so many seconds is renewed."""
    return lease / _SHARE


renewer = Renewer()
