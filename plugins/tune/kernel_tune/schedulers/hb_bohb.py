"""HyperBand as BOHB needs it: the largest bracket first, one after the other."""

from __future__ import annotations

from kernel_tune.result import Result
from kernel_tune.schedulers.hyperband import HyperBandScheduler
from kernel_tune.schedulers.hyperband_bracket import Bracket


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand that fills the largest bracket first, and gives the earlier bracket whatever room there is.

    Source: Falkner, Klein, Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale" (ICML 2018,
    arXiv:1807.01774), section 3.2. The searcher learns most from the many short trials of the largest bracket, so
    these come first. Trials are paused at the milestone also while a bracket is being filled, so that the
    searcher can put new ones beside them. A result at a milestone has `hyperband_info`, with the milestone as `budget`:
    by this a searcher knows which results can be compared. Arguments are those of `HyperBandScheduler`.
    """

    def _order(self) -> list[int]:
        return list(range(self._s_max, -1, -1))

    def _ranked(self, brackets: list[Bracket]) -> list[Bracket]:
        return brackets

    def _note_milestone(self, result: Result, bracket: Bracket) -> None:
        result["hyperband_info"] = {"budget": bracket.milestone}
