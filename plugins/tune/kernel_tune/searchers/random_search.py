"""Random search."""

from __future__ import annotations

from kernel_tune.search_space.flat import Point
from kernel_tune.searchers.space_searcher import SpaceSearcher


class RandomSearch(SpaceSearcher):
    """Draws every configuration from the space, whatever became of the others.

    Takes the arguments of `SpaceSearcher`. Bergstra, Bengio: Random Search for Hyper-Parameter Optimization, JMLR 2012.
    """

    def _propose(self, trial_id: str) -> Point:
        return self._begun().random(self._generator)
