"""The seeds of a run: from its own seed, or from the random generators of the program."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Seeds:
    """Makes the seeds of everything random in a run: ids of trials, configurations, choices of the scheduler.

    `functions` is for what functions of a search space draw from the module `random`; with None it is that of
    configurations.
    """

    ids: int
    configurations: int
    functions: int | None
    scheduler: int

    @classmethod
    def of(cls, seed: int | None) -> Seeds:
        """Return seeds from a seed. With None they follow `numpy.random.seed` and `random.seed`, except for the ids."""
        if seed is not None:
            return cls(seed, seed, None, seed)
        from kernel_tune.search_space.randomness import drawn_seed  # here: it needs numpy

        ids = random.SystemRandom().getrandbits(32)
        return cls(ids, drawn_seed(), random.getrandbits(32), random.getrandbits(32))
