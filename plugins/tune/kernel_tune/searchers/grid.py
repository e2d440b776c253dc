"""Grid search."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.flat import ALWAYS, Condition, FlatSpace, Point
from kernel_tune.searchers.base import FINISHED
from kernel_tune.searchers.space_searcher import SpaceSearcher


class GridSearch(SpaceSearcher):
    """Tries every combination once, and then is finished. The first parameter changes fastest.

    If a parameter has more than `points` values, that many are tried, evenly spread (by logarithm, if it is drawn so)
    with its ends included. `grid_search` and `choice` are always tried completely; parameters that belong to an option,
    only with it. `shuffle` tries the combinations in random order. Other arguments are those of `SpaceSearcher`. Raises
    SearchSpaceError for `points` below 1.
    """

    _grids_as_choices = True

    def __init__(self, space: dict[str, Any] | None = None, metric: str | None = None, mode: str | None = None,
                 points: int = 5, shuffle: bool = False, **options: Any) -> None:  # fmt: skip
        if points < 1:
            raise SearchSpaceError(f"points is {points}: at least one of each parameter must be tried")
        super().__init__(space, metric, mode, **options)
        self._most = points
        self._shuffle = shuffle
        self._next = 0
        self._order: list[int] | None = None

    @property
    def total_samples(self) -> int | None:
        """The number of combinations; None as long as there is no space."""
        return None if self._flat is None else self._count(self._flat, ALWAYS)

    def _propose(self, trial_id: str) -> Point | str:
        flat = self._begun()
        total = self._count(flat, ALWAYS)
        if self._shuffle and self._order is None:
            self._order = [int(number) for number in self._generator.permutation(total)]
        if self._next >= total:
            return FINISHED
        number = self._order[self._next] if self._order else self._next
        self._next += 1
        point = np.full((1, len(flat)), np.nan)
        self._fill(flat, ALWAYS, number, point[0])
        return flat.settled(point)[0]

    def _children(self, flat: FlatSpace, condition: Condition) -> list[int]:
        return [number for number, parameter in enumerate(flat.parameters) if parameter.condition == condition]

    def _units(self, flat: FlatSpace, number: int) -> list[float]:
        """Return the points of the unit interval that are tried of a parameter."""
        parameter = flat.parameters[number]
        count = self._most
        if parameter.edges is not None and (parameter.is_categorical or parameter.cells <= count):
            return [float(x) for x in (parameter.edges[1:] + parameter.edges[:-1]) / 2]
        return [0.5] if count == 1 else [float(x) for x in np.linspace(0, 1, count)]

    def _sizes(self, flat: FlatSpace, number: int) -> list[int]:
        """Return the number of combinations of the parameters that belong to each value of a parameter."""
        if not flat.parameters[number].is_categorical:
            return [1] * len(self._units(flat, number))
        return [self._count(flat, (number, option)) for option in range(flat.parameters[number].cells)]

    def _count(self, flat: FlatSpace, condition: Condition) -> int:
        return math.prod(sum(self._sizes(flat, number)) for number in self._children(flat, condition))

    def _fill(self, flat: FlatSpace, condition: Condition, combination: int, point: Point) -> None:
        for number in self._children(flat, condition):
            sizes = self._sizes(flat, number)
            combination, here = divmod(combination, sum(sizes))
            value = 0
            while here >= sizes[value]:
                here, value = here - sizes[value], value + 1
            point[number] = self._units(flat, number)[value]
            self._fill(flat, (number, value), here, point)
