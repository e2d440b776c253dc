"""Where the randomness of a run comes from: its seed, or the generators of the program."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Seeds:
    """What decides what is random in a run: the ids of trials, configurations, what the scheduler chooses.

    `functions` is for what functions of a search space draw from the module `random`; None: as all configurations.
    """

    ids: int
    configurations: int
    functions: int | None
    scheduler: int

    @classmethod
    def of(cls, seed: int | None) -> Seeds:
        """Return those of a seed; without one they follow `numpy.random.seed` and `random.seed`, but for the ids."""
        if seed is not None:
            return cls(seed, seed, None, seed)
        from kernel_tune.search_space.randomness import drawn_seed  # here: numpy, for who searches by it

        ids = random.SystemRandom().getrandbits(32)
        return cls(ids, drawn_seed(), random.getrandbits(32), random.getrandbits(32))
