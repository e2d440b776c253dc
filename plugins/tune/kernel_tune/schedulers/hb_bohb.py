"""HyperBand in the form that BOHB needs: the largest bracket first, one bracket after another."""

from __future__ import annotations

from kernel_runs.reports import Report
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.hyperband import HyperBandScheduler
from kernel_tune.schedulers.hyperband_bracket import Bracket
from kernel_tune.trial import Trial


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand that fills the largest bracket first, and prefers earlier brackets when it starts trials.

    Source: Falkner, Klein, Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale" (ICML 2018,
    arXiv:1807.01774), section 3.2. The searcher learns most from the many short trials of the largest bracket, so these
    come first. Trials are paused at the milestone also while a bracket is being filled, so that the searcher can make
    new ones. Results get `hyperband_info`, whose `budget` is the milestone, or None for results between milestones. The
    searcher compares results of equal budget. Arguments are those of `HyperBandScheduler`.
    """

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """Decide as `HyperBandScheduler`. Each result gets `hyperband_info`."""
        result["hyperband_info"] = {"budget": None}
        return super().on_trial_result(runner, trial, result)

    def _order(self) -> list[int]:
        return list(range(self._s_max, -1, -1))

    def _ranked(self, brackets: list[Bracket]) -> list[Bracket]:
        return brackets

    def _note_milestone(self, result: Report, bracket: Bracket) -> None:
        result["hyperband_info"] = {"budget": bracket.milestone}
