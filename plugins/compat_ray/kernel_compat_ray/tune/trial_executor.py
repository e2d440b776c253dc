"""Driving trials by hand, one step at a time: what the first releases call a trial executor.

`tune.run` and `Tuner` need none. Who writes a loop of their own about trials finds here the processes, resources and
checkpoints of trials: `start_trial`, then `get_next_available_trial`, `fetch_result` and `continue_training` in turn.
"""

from __future__ import annotations

import logging
import pickle
from typing import Any

from kernel.tune.errors import TuneError
from kernel.tune.trial import Status, Trial

_log = logging.getLogger("kernel.tune")


class AbortTrialExecution(TuneError):
    """A trial can't go on from the checkpoint that it was to go on from: its files are not on this machine."""


class TrialExecutor:
    """What an executor is, and what needs no processes: statuses and what is remembered of trials that have ended.

    With `queue_trials` trials are started where no machine has room for them, and wait there.
    """

    def __init__(self, queue_trials: bool = False) -> None:
        self.queue_trials = queue_trials
        self._metadata: dict[str, bytes] = {}

    def set_status(self, trial: Trial, status: Status | str) -> None:
        """Set a trial's status; of one that ends with it the metadata are remembered."""
        trial.status = Status(status)
        if trial.has_ended:
            self.try_checkpoint_metadata(trial)

    def try_checkpoint_metadata(self, trial: Trial) -> None:
        """Remember a trial as it is now. One that can't be pickled is logged, and not remembered."""
        import cloudpickle  # here: programs that run experiments need no executor

        try:
            self._metadata[trial.trial_id] = cloudpickle.dumps(trial)
        except Exception as error:  # whatever a user's object raises when it is pickled
            _log.error("trial %s can't be remembered: %s: %s", trial, type(error).__name__, error)

    def get_checkpoints(self) -> dict[str, bytes]:
        """Return what is remembered, by trial id: each a pickled trial."""
        return dict(self._metadata)

    @staticmethod
    def remembered(metadata: bytes) -> Trial:
        """Return the trial of such metadata."""
        trial: Trial = pickle.loads(metadata)
        return trial

    def unpause_trial(self, trial: Trial) -> None:
        """Have a paused trial wait to be started."""
        if trial.status is not Status.PAUSED:
            raise TuneError(f"trial {trial} is {trial.status}: only a paused one can be unpaused")
        self.set_status(trial, Status.PENDING)

    def on_step_begin(self, trial_runner: Any) -> None:
        """Called before each step of an experiment that runs with this executor."""

    def on_step_end(self, trial_runner: Any) -> None:
        """Called after each step of an experiment that runs with this executor."""
