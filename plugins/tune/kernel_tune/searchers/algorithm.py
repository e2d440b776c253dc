"""Search algorithms: where the trials of experiments come from.

A `Searcher` only proposes configurations; a `SearchAlgorithm` makes whole trials of experiments. `SearchGenerator`
makes one of the other. Users may write their own; mostly a `Searcher` is simpler.
"""

from __future__ import annotations

from typing import Any

from kernel_runs.reports import Report
from kernel_tune.trial import Trial


class SearchAlgorithm:
    """Makes trials, and hears how they do. Called from one thread, by the trial loop.

    A trial needs its configuration: `Trial("", {"x": 1})`. What else it lacks, its id included, is written into it when
    it was returned. It says to which of several experiments it belongs by `extra["experiment"]`, or by the name of its
    trainable.

    Trials that others add are told of as well: an algorithm knows its own by their ids.
    """

    metric: str | None = None

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take metric, mode and search space of the experiment; return whether the space was taken."""
        return False

    def add_configurations(self, experiments: Any) -> None:
        """Take experiments to make trials for: an `Experiment`, a list of them, or a dict of name to what it runs."""

    def next_trial(self) -> Trial | None:
        """Return the next trial, None if there is none just now. Override this, or `next_trials`."""
        raise NotImplementedError(f"{type(self).__name__} makes no trials: define next_trial() or next_trials()")

    def next_trials(self) -> list[Trial]:
        """Return the trials that can be had now."""
        trial = self.next_trial()
        return [] if trial is None else [trial]

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """A running trial has reported."""

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        """A trial has ended, with its last result if it had one; without where it failed, which `error` says."""

    def on_pause(self, trial_id: str) -> None:
        """A scheduler has paused a trial."""

    def on_unpause(self, trial_id: str) -> None:
        """A paused trial runs again."""

    def is_finished(self) -> bool:
        """Return whether there will be no further trial."""
        return bool(getattr(self, "_finished", False))

    def set_finished(self) -> None:
        """Make no further trial."""
        self._finished = True

    @property
    def total_samples(self) -> int | None:
        """How many trials there will be, None if nobody knows."""
        return None
