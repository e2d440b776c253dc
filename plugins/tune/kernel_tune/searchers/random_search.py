"""Random search."""

from __future__ import annotations

from kernel_tune.search_space.flat import Point
from kernel_tune.searchers.space_searcher import SpaceSearcher


class RandomSearch(SpaceSearcher):
    """Draws every configuration from the space, independently of results.

    Source: Bergstra, Bengio, "Random Search for Hyper-Parameter Optimization" (JMLR 2012). The arguments are those of
    `SpaceSearcher`.
    """

    def _propose(self, trial_id: str) -> Point:
        return self._begun().random(self._generator)
