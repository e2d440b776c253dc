"""The chosen values of a trial, and its tag, which shows them."""

from __future__ import annotations

import re
from typing import Any

from kernel_tune.search_space.domains import Categorical, Domain
from kernel_tune.search_space.paths import Path, find, grid_values, has_choices, is_container, items_of, path_name, read

_NOT_IN_FILE_NAMES = re.compile(r"[^a-zA-Z0-9_.+-]+")


def evaluated_parameters(space: Any, config: Any) -> dict[str, Any]:
    """Return the chosen values of a configuration, by their paths: `{"layers/0": 16}`.

    If a chosen option has domains of its own, all values in it are returned.
    """
    chosen: dict[str, Any] = {}
    for path, place in find(space):
        try:
            value = read(config, path)
        except (KeyError, IndexError, TypeError):
            continue  # a point to evaluate may have replaced the containers around it
        if any(has_choices(option) for option in _options(path, place)):
            chosen.update((path_name(leaf), found) for leaf, found in _leaves(value, path))
        else:
            chosen[path_name(path)] = value
    return chosen


def experiment_tag(index: int, evaluated: dict[str, Any]) -> str:
    """Return the number of a trial and its chosen values: `0_height=40,width=37`. It can be part of a file name.

    Only the last part of each path is shown, unless that is a number or occurs twice.
    """
    if not evaluated:
        return str(index)
    names = _short_names(sorted(evaluated))
    return f"{index}_" + ",".join(f"{_clean(names[path])}={_clean(evaluated[path])}" for path in sorted(evaluated))


def _options(path: Path, place: Any) -> list[Any]:
    if isinstance(place, Categorical):
        return place.categories
    return [] if isinstance(place, Domain) else grid_values(path, place)


def _leaves(value: Any, path: Path) -> list[tuple[Path, Any]]:
    if is_container(value) and len(value):
        return [leaf for key, inner in items_of(value) for leaf in _leaves(inner, (*path, key))]
    return [(path, value)]


def _short_names(paths: list[str]) -> dict[str, str]:
    lasts = [path.rsplit("/", 1)[-1] for path in paths]
    names = {}
    for path, last in zip(paths, lasts, strict=True):
        plain = not last.isdigit() and lasts.count(last) == 1
        names[path] = last if plain else path.replace("/", "_")
    return names


def _clean(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return _NOT_IN_FILE_NAMES.sub("_", text).strip("_")
