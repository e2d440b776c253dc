"""HyperBand as BOHB needs it: the largest bracket first, one after the other."""

from __future__ import annotations

from kernel_runs.reports import Report
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.hyperband import HyperBandScheduler
from kernel_tune.schedulers.hyperband_bracket import Bracket
from kernel_tune.trial import Trial


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand that fills the largest bracket first, and gives the earlier bracket whatever room there is.

    Source: Falkner, Klein, Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale" (ICML 2018,
    arXiv:1807.01774), section 3.2. The searcher learns most from the many short trials of the largest bracket, so
    these come first. Trials are paused at the milestone also while a bracket is being filled, so that the
    searcher can put new ones beside them. Results have `hyperband_info`, whose `budget` is the milestone, or None where
    there is none: by this a searcher knows which results can be compared. Arguments are those of `HyperBandScheduler`.
    """

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """As `HyperBandScheduler`; each result has the same keys."""
        result["hyperband_info"] = {"budget": None}
        return super().on_trial_result(runner, trial, result)

    def _order(self) -> list[int]:
        return list(range(self._s_max, -1, -1))

    def _ranked(self, brackets: list[Bracket]) -> list[Bracket]:
        return brackets

    def _note_milestone(self, result: Report, bracket: Bracket) -> None:
        result["hyperband_info"] = {"budget": bracket.milestone}
