"""The time that an experiment may take."""

from __future__ import annotations

import logging

from kernel_tune.execution.loop import TrialLoop

_log = logging.getLogger("kernel.tune")

_GRACE_SECONDS = 30.0
"""How long trials may take to their next result when the time is over."""


class TimeBudget:
    """Says what happens when the time is over; None is no end."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def events(self, used_seconds: float, loop: TrialLoop) -> list[tuple[str, ...]]:
        """Return what the loop is to be told: all are to stop, or, later, which trials are not waited for any more."""
        if self._seconds is None or used_seconds <= self._seconds:
            return []
        if not loop.is_stopping:
            return [("stop_all",)]
        if used_seconds - self._seconds < _GRACE_SECONDS:
            return []
        for trial_id in loop.outstanding:
            text = "trial %s did not come to its next result within %g s after the time was over: it is ended"
            _log.warning(text, loop.find(trial_id), _GRACE_SECONDS)
        return [("abandon", trial_id) for trial_id in loop.outstanding]
