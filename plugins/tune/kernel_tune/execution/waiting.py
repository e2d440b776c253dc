"""Trials that wait for resources: warnings about them, and an error if waiting is in vain."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import kernel
from kernel.exceptions import KernelError
from kernel_runs.resources import Demand
from kernel_tune.errors import TuneError
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.processes import Processes

_log = logging.getLogger("kernel.tune")

_PATIENCE_SECONDS = 5.0
"""Seconds that a process may take to begin before a warning says what it waits for."""
_WARN_SECONDS = 60.0
"""Seconds between two such warnings."""
_LOSS_SECONDS = 30.0
"""Seconds that another machine may take to come after one was lost."""


class WaitingTrials:
    """Watches trials that wait for resources. With `queue_trials` trials also wait for machines that may be added."""

    def __init__(self, processes: Processes, queue_trials: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._queue_trials = queue_trials
        self._clock = clock
        self._lost_at = float("-inf")
        self._warned_at = float("-inf")

    def has_changed(self, before: Demand, now: Demand) -> None:
        """Note that the resources of the machines have changed."""
        if any(now.get(name, 0.0) < amount for name, amount in before.items()):
            self._lost_at = self._clock()

    def check(self, loop: TrialLoop) -> None:
        """Raise TuneError if nothing runs and nothing will, unless trials are to wait for other machines."""
        if not loop.is_stuck or not self._processes.arrivals.empty():
            return
        waits = any(not loop.could_run(trial) for trial in loop.get_live_trials())
        if waits and (self._queue_trials or self._clock() - self._lost_at < _LOSS_SECONDS):
            self._warn(f"nothing runs until there is another machine: {loop.why_stuck()}")
            return
        raise TuneError(
            f"the experiment can't go on: {loop.why_stuck()}"
            + ("; ask for less, or say queue_trials=True to wait for more machines" if waits else "")
        )

    def look(self) -> None:
        """Warn about a process that has not begun for a while, with what it waits for."""
        first = self._processes.first_to_begin()
        if first is None or self._clock() - first.made_at < _PATIENCE_SECONDS:
            return
        try:
            reason = kernel.explain(first.actor)
        except KernelError:  # The process is dead, which fails its trial.
            return
        if "PENDING" in reason:
            waited = self._clock() - first.made_at
            self._warn(f"trial {first.trial} has waited {waited:.0f} s for its process to begin: {reason}")

    def _warn(self, text: str) -> None:
        if self._clock() - self._warned_at > _WARN_SECONDS:
            self._warned_at = self._clock()
            _log.warning("%s", text)
