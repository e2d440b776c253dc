"""Log refused connections in few lines, however many there are: a flood must not fill the disk."""

from __future__ import annotations

from collections.abc import Callable

from kernel_processes.transport.reactor import Reactor

AT_ONCE = 10
WINDOW_SECONDS = 1.0


class RefusalLog:
    """Passes reasons to `tell`: up to ten a second in full; of the others it reports the number and the last."""

    def __init__(self, reactor: Reactor, tell: Callable[[str], None]) -> None:
        self._reactor = reactor
        self._tell = tell
        self._begun = float("-inf")
        self._told = 0
        self._held_back = 0
        self._last = ""

    def __call__(self, reason: str) -> None:
        """Pass on one reason, or count it."""
        now = self._reactor.clock()
        if now - self._begun >= WINDOW_SECONDS and not self._held_back:
            self._begun, self._told = now, 0
        if self._told < AT_ONCE:
            self._told += 1
            self._tell(reason)
            return
        self._held_back += 1
        self._last = reason
        if self._held_back == 1:
            self._reactor.call_later(WINDOW_SECONDS, self._sum_up)

    def _sum_up(self) -> None:
        number, self._held_back = self._held_back, 0
        self._tell(f"{number} more within {WINDOW_SECONDS:g} s, the last because: {self._last}")
