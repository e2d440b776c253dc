"""The runs of an experiment: each combination of `grid_search` values, as often as it says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.experiment import Experiment

_GRID = "grid_search"


@dataclass(frozen=True)
class Variant:
    """One run of an experiment.

    Attributes:
        index: Its number, from 0.
        env: The environment.
        config: The settings, with one value of each grid.
        chosen: The values that were chosen for it, by the path in the settings.
    """

    index: int
    env: Any
    config: dict[str, Any]
    chosen: dict[str, Any]

    @property
    def tag(self) -> str:
        """The settings that differ from those of other variants, as a part of a name."""
        return ",".join(f"{path.rpartition('/')[2]}={value}" for path, value in self.chosen.items())


def variants_of(experiment: Experiment) -> list[Variant]:
    """Return the runs of an experiment, in the order of its grids.

    Raises:
        ConfigError: If a grid is no list, or something is to be drawn at random, which only Tune does.
    """
    whole = {"config": experiment.config, "env": experiment.env}
    grids = list(_grids(whole, (), experiment.name))
    found = []
    samples = range(max(experiment.num_samples, 1))
    for index, (_, *values) in enumerate(itertools.product(samples, *(values for _, values in grids))):
        made: Any = whole
        chosen = {}
        for (path, _), value in zip(grids, values, strict=True):
            made = _with(made, path, value)
            chosen["/".join(path[1:] if path[0] == "config" else path)] = value
        found.append(Variant(index, made["env"], made["config"], chosen))
    return found


def _grids(value: Any, path: tuple[str, ...], name: str) -> Iterator[tuple[tuple[str, ...], Sequence[Any]]]:
    if not isinstance(value, Mapping):
        return
    if set(value) == {_GRID}:
        if not isinstance(value[_GRID], Sequence) or isinstance(value[_GRID], str) or not value[_GRID]:
            raise ConfigError(
                f"experiment {name!r}: grid_search of {'/'.join(path[1:]) or path[0]} is {value[_GRID]!r}, but must be "
                "a list of values"
            )
        yield path, value[_GRID]
        return
    for key, below in value.items():
        if key in ("sample_from", "tune"):
            raise ConfigError(
                f"experiment {name!r}: {'/'.join([*path[1:], str(key)])} is to be drawn at random, which only Tune "
                "does; run it by `kernel.tune.run_experiments`, or give a grid_search"
            )
        yield from _grids(below, (*path, str(key)), name)


def _with(tree: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    first, *rest = path
    return {**tree, first: _with(tree[first], tuple(rest), value) if rest else value}
