"""The time budget of an experiment."""

from __future__ import annotations

import logging

from kernel_tune.execution.loop import TrialLoop

_log = logging.getLogger("kernel.tune")

_GRACE_SECONDS = 30.0
"""Seconds that trials may take to their next result after the time is over."""


class TimeBudget:
    """Decides what happens when the time is over. With None there is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def events(self, used_seconds: float, loop: TrialLoop) -> list[tuple[str, ...]]:
        """Return events for the loop: stop all trials, or later, abandon those that do not report."""
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
