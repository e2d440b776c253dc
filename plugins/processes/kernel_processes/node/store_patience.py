"""Decide when requests that wait for room in the store are given up. Pure: it is told the time, in seconds."""

from __future__ import annotations

PATIENCE_SECONDS = 5.0
"""Seconds without any progress after which a request for space fails."""

OVERFLOW_SECONDS = 0.5
"""Seconds without any progress after which a request gets a file instead. It waits PATIENCE_SECONDS at most in all."""


class StorePatience:
    """Remembers when the store last made progress, and since when its requests have waited."""

    def __init__(self) -> None:
        self._moved_at = self._waiting_since = float("-inf")

    def moved(self, now: float) -> None:
        """Something was stored, freed, written or read."""
        self._moved_at = now

    def begin(self, now: float, fails: bool) -> float:
        """A first request waits: return for how many seconds nothing may move. `fails`: giving up means to fail."""
        self._moved_at = self._waiting_since = now
        return _patience(fails)

    def left(self, now: float, fails: bool) -> float:
        """Return for how many seconds more to wait; 0 says that a request is given up now."""
        too_long = now - self._waiting_since >= PATIENCE_SECONDS  # Others may put small objects for ever.
        if too_long and not fails:
            return 0.0
        return max(0.0, self._moved_at + _patience(fails) - now)

    def after_giving_up(self, fails: bool) -> float:
        """Return for how many seconds to wait before those that still wait are looked at again."""
        return _patience(fails)


def _patience(fails: bool) -> float:
    return PATIENCE_SECONDS if fails else OVERFLOW_SECONDS
