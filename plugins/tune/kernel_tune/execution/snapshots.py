"""Periodic snapshots of an experiment's state, rare enough to cost little."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from kernel_tune.errors import TuneError
from kernel_tune.storage.experiment_files import ExperimentFiles

_log = logging.getLogger("kernel.tune")

_SHARE = 20
"""Snapshots take at most one part in this many of the time."""


class Snapshots:
    """Writes the state of one experiment, every `period` seconds, or less often if that takes long."""

    def __init__(self, files: ExperimentFiles, period: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._period = period
        self._clock = clock
        self._at = 0.0
        self._size = -1
        self._has_warned = False

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next snapshot."""
        return self._clock() - self._at > self._period

    @property
    def is_up_to_date(self) -> bool:
        """Whether nothing was logged since the last snapshot."""
        return self._files.log_size == self._size

    def write(self, state: Callable[[], dict[str, Any]], described: Callable[[], str]) -> None:
        """Write the state for resuming, and the readable one. Errors are logged as a warning, once."""
        began = self._clock()
        for write, what in ((self._files.write_snapshot, state), (self._files.write_state, described)):
            try:
                write(what())
            except (OSError, TuneError) as error:
                self._warn(error)
        took = self._clock() - began
        self._size = self._files.log_size
        self._at = self._clock() + max(0.0, took * _SHARE - self._period)

    def _warn(self, error: Exception) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        what = "it resumes from what was written before" if self._files.exist else "it can't be resumed after a kill"
        _log.warning(
            "the state of experiment %s can't be written down, so that %s: %s", self._files.directory, what, error
        )
