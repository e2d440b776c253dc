"""Paths in nested configurations, and the parts of a space that are chosen."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from kernel_spec.nearest import nearest
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Domain

Path = tuple[Any, ...]
"""The keys and indices that lead to a value: `("layers", 0)`."""


def path_name(path: Path) -> str:
    """Return a path as text: `layers/0`."""
    return "/".join(str(part) for part in path)


def is_grid(value: Any) -> bool:
    """Return whether a value is a grid, made by `grid_search` or written as a dict."""
    return isinstance(value, dict) and len(value) == 1 and "grid_search" in value


def grid_values(path: Path, grid: dict[str, Any]) -> list[Any]:
    """Return the values of a grid. Raises SearchSpaceError if it has none."""
    values = grid["grid_search"]
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__") or len(list(values)) == 0:
        raise SearchSpaceError(f"the grid_search of '{path_name(path)}' has {values!r}: give it a list of values")
    return list(values)


def is_container(value: Any) -> bool:
    """Return whether a value may contain others that are chosen."""
    return isinstance(value, (dict, list, tuple)) and not is_grid(value)


def items_of(container: Any) -> Iterator[tuple[Any, Any]]:
    """Iterate over the keys or indices of a container and their values."""
    yield from container.items() if isinstance(container, dict) else enumerate(container)


def rebuilt(container: Any, build: Callable[[Any, Any], Any]) -> Any:
    """Return a container of the same kind with the values `build(key, value)`."""
    values = [(key, build(key, value)) for key, value in items_of(container)]
    if type(container) is dict:
        return dict(values)
    if isinstance(container, dict):
        copied = copy.copy(container)
        copied.update(values)
        return copied
    plain = [value for _, value in values]
    if type(container) is list:
        return plain
    if isinstance(container, tuple):
        return type(container)(*plain) if hasattr(container, "_fields") else type(container)(plain)
    copied = copy.copy(container)
    copied[:] = plain
    return copied


def find(space: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Iterate over the domains and grids of a space with their paths, in the order in which they are written."""
    if isinstance(space, Domain) or is_grid(space):
        yield path, space
    elif is_container(space):
        for key, value in items_of(space):
            yield from find(value, (*path, key))


def has_choices(space: Any) -> bool:
    """Return whether a space has anything to choose."""
    return next(find(space), None) is not None


def read(config: Any, path: Path) -> Any:
    """Return the value at a path. Raises KeyError, IndexError or TypeError if there is none."""
    for key in path:
        config = config[key]
    return config


def overlay(space: Any, preset: dict[str, Any], path: Path = ()) -> Any:
    """Return a space in which some values are replaced by given ones. Names are keys, or whole paths: `{"layers/0":
    16}`.

    Raises SearchSpaceError for a name that the space does not have.
    """
    names = {str(key): key for key, _ in items_of(space)} if is_container(space) else {}
    given: dict[Any, Any] = {}
    for name, value in preset.items():
        head, _, rest = str(name).partition("/")
        if str(name) in names:
            key = names[str(name)]
        elif rest and head in names:
            key, value = names[head], {rest: value}
        else:
            where = f" under '{path_name(path)}'" if path else ""
            close = nearest(name, names, 0.6)
            known = f"did you mean '{close}'?" if close else f"it has {', '.join(names) or 'nothing'}"
            raise SearchSpaceError(f"the search space has no '{name}'{where}, which a point to evaluate gives: {known}")
        given[key] = {**given[key], **value} if key in given and isinstance(value, dict) else value

    def build(key: Any, old: Any) -> Any:
        if key not in given:
            return old
        new = given[key]
        if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
            return new
        return overlay(old, new, (*path, key)) if is_container(old) and isinstance(new, dict) else new

    return rebuilt(space, build)
