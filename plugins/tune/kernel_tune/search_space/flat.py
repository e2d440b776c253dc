"""A search space as numbers in the unit interval, one for each parameter, for model-based searchers.

A point is an array with one number for each parameter. A parameter that is not active (it belongs to an option that was
not chosen) is NaN. Parents come before the parameters that depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Categorical, Domain, Function, same
from kernel_tune.search_space.paths import (
    Path,
    grid_values,
    has_choices,
    is_container,
    is_grid,
    items_of,
    overlay,
    path_name,
    rebuilt,
)
from kernel_tune.search_space.resolve import Resolver

Point = NDArray[np.float64]
Condition = tuple[int, int]
"""The number of a parameter, and the option of it that must be chosen; (-1, -1) for an unconditional parameter."""
ALWAYS: Condition = (-1, -1)
MOST_CELLS = 1000
"""The largest number of values that are distinguished; a parameter with more counts as continuous."""


@dataclass(frozen=True)
class Parameter:
    """Describes one number of a point."""

    path: Path
    domain: Domain
    condition: Condition
    edges: NDArray[np.float64] | None
    """The edges of the cells of its values, shape (cells + 1,); None if it is continuous."""

    @property
    def name(self) -> str:
        """Its path, with the number of the option that it belongs to."""
        return path_name(self.path) + (f"?{self.condition[1]}" if self.condition != ALWAYS else "")

    @property
    def is_categorical(self) -> bool:
        """Whether its values have no order."""
        return isinstance(self.domain, Categorical)

    @property
    def cells(self) -> int:
        """The number of its values; 0 if it is continuous."""
        return 0 if self.edges is None else len(self.edges) - 1

    def cell_of(self, units: Any) -> Any:
        """Return the numbers of the cells of points in the unit interval, in the same shape."""
        assert self.edges is not None
        return np.clip(np.searchsorted(self.edges, units, side="right") - 1, 0, self.cells - 1)

    def snapped(self, units: Any) -> Any:
        """Return the middles of the cells of points in the unit interval; the points themselves if it is continuous."""
        if self.edges is None:
            return units
        cell = self.cell_of(units)
        return np.where(np.isnan(units), np.nan, (self.edges[cell] + self.edges[cell + 1]) / 2)


class FlatSpace:
    """Holds the parameters of a space, and the conversion of points to configurations and back.

    With `grids_as_choices` a grid is a choice. Otherwise it raises SearchSpaceError, as no searcher would try all
    values.
    """

    def __init__(self, space: dict[str, Any], grids_as_choices: bool = False) -> None:
        self.space = space
        self.parameters: list[Parameter] = []
        self.has_functions = False
        self._grids_as_choices = grids_as_choices
        self._numbers: dict[tuple[Path, Condition], int] = {}
        self._collect(space, (), ALWAYS)
        self._conditional = [(n, *p.condition) for n, p in enumerate(self.parameters) if p.condition != ALWAYS]

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def names(self) -> list[str]:
        """The names of the parameters."""
        return [parameter.name for parameter in self.parameters]

    def random(self, generator: np.random.Generator) -> Point:
        """Return a point drawn from the space."""
        return self.settled(generator.random((1, len(self))))[0]

    def settled(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points, shape (n, parameters), as they are evaluated: values in the middles of their cells, NaN where
        a parameter is not active. A NaN of an active parameter becomes 0.5 first."""
        points = np.clip(np.nan_to_num(points, nan=0.5), 0.0, 1.0)
        for number, parameter in enumerate(self.parameters):
            points[:, number] = parameter.snapped(points[:, number])
        for number, parent, option in self._conditional:
            parents = points[:, parent]
            chosen = self.parameters[parent].cell_of(np.nan_to_num(parents))
            points[np.isnan(parents) | (chosen != option), number] = np.nan
        return points

    def config(self, point: Point, generator: np.random.Generator, exact: dict[int, Any] | None = None) -> Any:
        """Return the configuration of a point. Functions are called, with randomness from `generator`.

        `exact` has values by the number of their parameter, which are used as they are.
        """
        built = self._build(self.space, (), ALWAYS, point, exact or {})
        return Resolver(built, generator).config() if self.has_functions else built

    def point(self, config: dict[str, Any], generator: np.random.Generator) -> tuple[Point, dict[int, Any]]:
        """Return the point of a configuration, and the exact values by the number of their parameter.

        Missing values are drawn. Raises SearchSpaceError for values that are not in the space.
        """
        point = np.full(len(self), np.nan)
        exact: dict[int, Any] = {}
        drawn = generator.random(len(self))
        self._read(self.space, overlay(self.space, config), (), ALWAYS, point, exact, drawn)
        return self.settled(np.where(np.isnan(point), drawn, point)[None])[0], exact

    def _collect(self, node: Any, path: Path, condition: Condition) -> None:
        if isinstance(node, Function):
            self.has_functions = True
        elif isinstance(node, Domain) or is_grid(node):
            domain = self._domain(node, path)
            number = self._numbers[path, condition] = len(self.parameters)
            cells = domain.cells
            few = cells is not None and (cells <= MOST_CELLS or isinstance(domain, Categorical))
            edges = np.array([domain.edge(cell) for cell in range(cells + 1)]) if few and cells else None
            self.parameters.append(Parameter(path, domain, condition, edges))
            for option, value in enumerate(domain.categories if isinstance(domain, Categorical) else ()):
                self._collect(value, path, (number, option))
        elif is_container(node):
            for key, value in items_of(node):
                self._collect(value, (*path, key), condition)

    def _domain(self, node: Any, path: Path) -> Domain:
        if isinstance(node, Domain):
            return node
        if not self._grids_as_choices:
            raise SearchSpaceError(
                f"'{path_name(path)}' is a grid_search, and this searcher does not try every value: use choice there,"
                " or BasicVariantGenerator or GridSearch as the searcher"
            )
        return Categorical(grid_values(path, node))

    def _build(self, node: Any, path: Path, condition: Condition, point: Point, exact: dict[int, Any]) -> Any:
        if isinstance(node, Function):
            return node
        if isinstance(node, Domain) or is_grid(node):
            number = self._numbers[path, condition]
            if number in exact:
                return exact[number]
            domain = self.parameters[number].domain
            if isinstance(domain, Categorical):
                option = domain.number_at(point[number])
                return self._build(domain.categories[option], path, (number, option), point, exact)
            return domain.from_unit(float(point[number]))
        if is_container(node):
            return rebuilt(node, lambda key, value: self._build(value, (*path, key), condition, point, exact))
        return node

    def _read(self, node: Any, value: Any, path: Path, condition: Condition, point: Point, exact: dict[int, Any],
              drawn: Point) -> None:  # fmt: skip
        """Write the position of a value in a part of the space into `point` and `exact`."""
        if isinstance(node, Function):
            return
        if isinstance(node, Domain) or is_grid(node):
            number = self._numbers[path, condition]
            domain = self.parameters[number].domain
            if value is node:
                point[number] = drawn[number]
            if isinstance(domain, Categorical):
                option = domain.number_at(drawn[number]) if value is node else _option(domain, value, path)
                chosen = domain.categories[option]
                point[number] = (domain.edge(option) + domain.edge(option + 1)) / 2
                self._read(chosen, chosen if value is node else value, path, (number, option), point, exact, drawn)
            elif value is not node:
                if not domain.is_valid(value):
                    raise SearchSpaceError(f"'{path_name(path)}' is {value!r}, which is not in {domain.domain_str}")
                point[number], exact[number] = domain.to_unit(value), value
        elif is_container(node) and has_choices(node):
            for key, inner in items_of(node):
                try:
                    given = value[key]
                except (KeyError, IndexError, TypeError):
                    given = inner
                self._read(inner, given, (*path, key), condition, point, exact, drawn)


def _option(domain: Categorical, value: Any, path: Path) -> int:
    """Return the number of the option that a value is, or is a part of. Raises SearchSpaceError if there is none."""
    for partly in (False, True):
        for option, category in enumerate(domain.categories):
            if _fits(category, value, partly):
                return option
    raise SearchSpaceError(f"'{path_name(path)}' is {value!r}, but must be one of the categories {domain.categories}")


def _fits(node: Any, value: Any, partly: bool) -> bool:
    if isinstance(node, Categorical):
        return any(_fits(category, value, partly) for category in node.categories)
    if isinstance(node, Domain):
        return value is node or node.is_valid(value)
    if is_container(node) and has_choices(node):
        if not is_container(value) or isinstance(node, dict) is not isinstance(value, dict):
            return False
        inner, given = dict(items_of(node)), dict(items_of(value))
        if not given.keys() <= inner.keys() or (not partly and len(given) < len(inner)):
            return False
        return all(_fits(inner[key], given[key], partly) for key in given)
    return same(node, value)
