"""Measure how long calls of each function take in this worker, and decide when to report it to their senders. Pure."""

from __future__ import annotations

LEAST_SECONDS = 10e-6
"""Shorter durations make no difference to a sender, which then sends as many calls at a time as it may."""
REPEAT_SECONDS = 0.1
"""Seconds after which a duration is reported again, even if it has not changed."""
_CHANGE = 2.0


class CallDurations:
    """Smooths durations. An owner plans with the reported one, so a change by half or double is reported at once."""

    def __init__(self) -> None:
        self._average: dict[bytes, float] = {}
        self._reported: dict[bytes, tuple[float, float]] = {}

    def measured(self, function: bytes, seconds: float, now: float) -> float | None:
        """Take the mean of a few calls in a row; return the duration to report, or None for no news.

        `now` is any clock's time in seconds.
        """
        seconds = max(seconds, LEAST_SECONDS)
        before = self._average.get(function)
        average = self._average[function] = seconds if before is None else (before + seconds) / 2
        reported, when = self._reported.get(function, (0.0, 0.0))
        if reported / _CHANGE < average < reported * _CHANGE and now - when < REPEAT_SECONDS:
            return None
        self._reported[function] = average, now
        return average

    def forget(self) -> None:
        """Begin anew: the next calls come from another sender."""
        self._average.clear()
        self._reported.clear()
