"""Variants: all combinations of the grids of a space, with draws for everything else."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernel_tune.search_space.domains import Domain
from kernel_tune.search_space.paths import Path, find, grid_values, has_choices, is_grid
from kernel_tune.search_space.randomness import as_generator
from kernel_tune.search_space.resolve import Resolver

Variant = tuple[dict[Path, Any], dict[str, Any]]
"""The chosen values by path, and the configuration."""


class GridAxes:
    """Holds the grids of a space, sorted by path. The first changes fastest."""

    def __init__(self, space: Any) -> None:
        grids = [(path, grid_values(path, value)) for path, value in find(space) if is_grid(value)]
        self._axes = sorted(grids, key=lambda axis: [(type(part).__name__, part) for part in axis[0]])

    def __len__(self) -> int:
        return math.prod(len(values) for _, values in self._axes)

    def combination(self, number: int) -> dict[Path, Any]:
        """Return the values of one combination, by path."""
        chosen = {}
        for path, values in self._axes:
            number, index = divmod(number, len(values))
            chosen[path] = values[index]
        return chosen


def count_variants(space: Any) -> int:
    """Return the number of variants in one repetition of a space: the product of the sizes of its grids.

    Grids within values of a grid are included. Grids within options of a choice are not counted: their number is known
    only when an option was chosen.
    """
    grids = [grid_values(path, value) for path, value in find(space) if is_grid(value)]
    return math.prod(sum(count_variants(value) for value in values) for values in grids)


def generate_variants(space: dict[str, Any], constant_grid_search: bool = False,
                      random_state: Any = None, standard: random.Random | None = None
                      ) -> Iterator[Variant]:  # fmt: skip
    """Iterate over one repetition: every combination of the grids, with new draws of everything else.

    With `constant_grid_search` these are drawn once, except functions that ask for the value of a grid. Draws of
    functions from the module `random` are seeded by `standard` if that is given.
    """
    generator = as_generator(random_state)
    constants = draw_constants(space, generator, standard) if constant_grid_search else {}
    axes = GridAxes(space)
    for number in range(len(axes)):
        yield from variants_of(space, axes.combination(number), generator, constants, standard)


def draw_constants(
    space: Any, generator: np.random.Generator, standard: random.Random | None = None
) -> dict[Path, Any]:
    """Draw everything that does not depend on a grid. Return it by path."""
    resolver = Resolver(space, generator, standard=standard)
    for path, value in find(space):
        if isinstance(value, Domain):
            resolver.try_value(path, value)
    return resolver.values


def variants_of(space: Any, combination: dict[Path, Any], generator: np.random.Generator,
                constants: dict[Path, Any], standard: random.Random | None = None
                ) -> Iterator[Variant]:  # fmt: skip
    """Iterate over the variants of one combination of the grids: one, or several if a chosen option has grids."""
    resolver = Resolver(space, generator, {**constants, **combination}, standard)
    config = resolver.config()
    if not has_choices(config):
        yield resolver.values, config
        return
    for inner_values, inner in generate_variants(config, random_state=generator, standard=standard):
        yield {**resolver.values, **inner_values}, inner
