"""Random generators from seeds, and reproducible draws from global generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def as_generator(seed: Any = None) -> np.random.Generator:
    """Return a generator: the given one, or a new one from a seed or a RandomState.

    Without a seed it is seeded by a draw from `numpy.random`, and so follows `numpy.random.seed`.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, np.random.RandomState):
        return np.random.default_rng(seed.randint(2**31))
    return np.random.default_rng(drawn_seed() if seed is None else seed)


def drawn_seed() -> int:
    """Return a seed that is drawn from the global generator of `numpy.random`, and so follows `numpy.random.seed`."""
    return int(np.random.randint(2**32, dtype=np.uint64))


@contextmanager
def global_randomness_from(generator: np.random.Generator, standard: random.Random | None = None) -> Iterator[None]:
    """Seed `random` and `numpy.random` from a generator during a `with` block, and restore them.

    `random` is seeded from `standard` if that is given. So the draws of users' functions follow the seed of the
    searcher, and are the same when an experiment resumes.
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
