"""How long calls of each function take in this worker, and when whoever sends them should hear of it. Pure."""

from __future__ import annotations

LEAST_SECONDS = 10e-6
"""Shorter calls are all the same to who sends them: as many at a time as may be."""
REPEAT_SECONDS = 0.1
"""What was told is told again after this long, though nothing has changed."""
_CHANGE = 2.0


class CallDurations:
    """Smoothed times. An owner plans with what it was told, so it hears at once of a change by half or double."""

    def __init__(self) -> None:
        self._average: dict[bytes, float] = {}
        self._told: dict[bytes, tuple[float, float]] = {}

    def measured(self, function: bytes, seconds: float, now: float) -> float | None:
        """Take the mean of a few calls in a row; return what to tell of the function, or None for nothing new.

        `now` is any clock's time in seconds.
        """
        seconds = max(seconds, LEAST_SECONDS)
        before = self._average.get(function)
        average = self._average[function] = seconds if before is None else (before + seconds) / 2
        told, when = self._told.get(function, (0.0, 0.0))
        if told / _CHANGE < average < told * _CHANGE and now - when < REPEAT_SECONDS:
            return None
        self._told[function] = average, now
        return average

    def forget(self) -> None:
        """Begin anew: the next calls come from somebody else."""
        self._average.clear()
        self._told.clear()
