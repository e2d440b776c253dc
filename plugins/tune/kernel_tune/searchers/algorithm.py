"""Search algorithms, which make the trials of experiments.

A `Searcher` only proposes configurations; a `SearchAlgorithm` makes whole trials. `SearchGenerator` is the algorithm
around a searcher. Users may write either; mostly a `Searcher` is simpler.
"""

from __future__ import annotations

from typing import Any

from kernel_runs.reports import Report
from kernel_tune.trial import Trial


class SearchAlgorithm:
    """Makes trials, and is called with their results. All calls come from one thread, the trial loop's.

    A trial needs a configuration: `Trial("", {"x": 1})`. Whatever else it lacks, its id included, is set after it was
    returned. `extra["experiment"]`, or the name of its trainable, says to which of several experiments it belongs.

    An algorithm is also called for trials that it has not made. It recognises its own by their ids.
    """

    metric: str | None = None

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take metric, mode and search space of the experiment. Return whether the space was taken."""
        return False

    def add_configurations(self, experiments: Any) -> None:
        """Add experiments to make trials for: an `Experiment`, a list of them, or a dict of name to description."""

    def next_trial(self) -> Trial | None:
        """Return the next trial, or None if there is none at present. Override this, or `next_trials`."""
        raise NotImplementedError(f"{type(self).__name__} makes no trials: define next_trial() or next_trials()")

    def next_trials(self) -> list[Trial]:
        """Return the trials that are available now."""
        trial = self.next_trial()
        return [] if trial is None else [trial]

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """A running trial has reported."""

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        """A trial has ended, with its last result; None if it had none, or failed (`error`)."""

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
        """The number of trials that there will be, or None if it is not known."""
        return None
