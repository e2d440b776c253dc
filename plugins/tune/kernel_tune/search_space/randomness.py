"""Random generators from seeds, and functions that draw from global state made repeatable."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def as_generator(seed: Any = None) -> np.random.Generator:
    """Return a generator: the one that was given, or one made from a seed, a RandomState, or the system's entropy."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, np.random.RandomState):
        return np.random.default_rng(seed.randint(2**31))
    return np.random.default_rng(seed)


@contextmanager
def global_randomness_from(generator: np.random.Generator) -> Iterator[None]:
    """Seed `random` and `numpy.random` for a while from a generator; afterwards they are as they were.

    What users' functions draw is so decided by the seed of the searcher, and the same when an experiment resumes.
    """
    seed = int(generator.integers(2**32))
    standard, numpys = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(standard)
        np.random.set_state(numpys)
