"""Numbers of requests in the last seconds, and their means."""

from __future__ import annotations

from collections import deque

LEAST_PATIENCE = 5.0
"""The least time in seconds that a number counts when no newer one comes."""


def patience_of(metrics_interval_s: float) -> float:
    """Return the number of seconds that a reported number counts when no newer one comes."""
    return max(LEAST_PATIENCE, 3 * metrics_interval_s)


class Window:
    """Holds the numbers that were observed in the last `length` seconds, each of which holds until the next.

    Without a next one, a number holds for `patience` seconds; times without a number are left out of means.
    """

    def __init__(self, length: float, patience: float) -> None:
        self.length = length
        self.patience = patience
        self.idle_since: float | None = None
        """The time since which there has been no request; None while there is one, or after a gap."""
        self._seen: deque[tuple[float, int, int]] = deque()

    def observe(self, now: float, queued: int, ongoing: int) -> None:
        """Take in the numbers of this moment. When the clock goes back, begin anew."""
        if self._seen and now < self._seen[-1][0]:
            self.clear()
        if self._seen and now - self._seen[-1][0] > self.patience:
            self.idle_since = None  # There may have been requests in the gap.
        if queued or ongoing:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = now
        if self._seen and self._seen[-1][0] == now:
            self._seen.pop()
        self._seen.append((now, queued, ongoing))
        self._forget(now)

    def latest(self, now: float) -> tuple[int, int] | None:
        """Return the numbers that hold now; None if they are too old."""
        if not self._seen or not 0 <= now - self._seen[-1][0] <= self.patience:
            return None
        return self._seen[-1][1:]

    def means(self, now: float) -> tuple[float, float] | None:
        """Return the mean numbers of waiting requests and of those that were worked on; None if nothing is known."""
        current = self.latest(now)
        if current is None:
            return None
        queued = ongoing = known = 0.0
        start = now - self.length
        end = now
        for begin, waiting, working in reversed(self._seen):
            span = min(end, begin + self.patience) - max(begin, start)
            if span > 0:
                queued += waiting * span
                ongoing += working * span
                known += span
            end = begin
            if begin <= start:
                break
        return (queued / known, ongoing / known) if known > 0 else (float(current[0]), float(current[1]))

    def idle_for(self, now: float) -> float:
        """Return for how many seconds there has been no request."""
        return 0.0 if self.idle_since is None else max(0.0, now - self.idle_since)

    def clear(self) -> None:
        """Forget all numbers."""
        self._seen.clear()
        self.idle_since = None

    def _forget(self, now: float) -> None:
        start = now - self.length
        while len(self._seen) > 1 and self._seen[1][0] <= start:  # the first one still holds at the start of the window
            self._seen.popleft()
