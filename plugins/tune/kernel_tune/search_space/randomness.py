"""Random generators from seeds, and functions that draw from global state made repeatable."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def as_generator(seed: Any = None) -> np.random.Generator:
    """Return a generator: the one that was given, or one made from a seed or a RandomState.

    Without a seed it follows `numpy.random.seed`, by a number that is drawn there.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, np.random.RandomState):
        return np.random.default_rng(seed.randint(2**31))
    return np.random.default_rng(drawn_seed() if seed is None else seed)


def drawn_seed() -> int:
    """Draw a seed from the global generator of `numpy.random`: the same after the same `numpy.random.seed`."""
    return int(np.random.randint(2**32, dtype=np.uint64))


@contextmanager
def global_randomness_from(generator: np.random.Generator, standard: random.Random | None = None) -> Iterator[None]:
    """Seed `random` and `numpy.random` for a while from a generator; afterwards they are as they were.

    `random` is seeded from `standard` where that is given. What users' functions draw is so decided by the seed of the
    searcher, and the same when an experiment resumes.
    """
    seed = int(generator.integers(2**32))
    before, numpys = random.getstate(), np.random.get_state()
    random.seed(seed if standard is None else standard.getrandbits(64))
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpys)
