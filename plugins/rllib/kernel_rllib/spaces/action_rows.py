"""Actions as the rows of numbers that distributions draw, and as the structs that environments take.

| space | rows |
|---|---|
| Discrete | int64 [lanes], counted from 0 |
| MultiDiscrete, MultiBinary | int64 [lanes, k], counted from 0 |
| Box, Simplex | float32 [lanes, d], whatever the shape of the box |
| Dict, Tuple | float32 [lanes, width]: the rows of the parts, one after the other |
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces.nested import Array, Struct


def row_width(space: spaces.Space[Any]) -> int:
    """Return how many numbers a row of an action space has. Raises SpaceError for a space that has no actions."""
    if isinstance(space, spaces.Dict):
        return sum(map(row_width, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return sum(map(row_width, space.spaces))
    if isinstance(space, spaces.Discrete):
        return 1
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        return math.prod(space.shape)
    raise SpaceError(
        f"{space} can't be an action space: use Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict of those"
    )


def row_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space whose values rows are: as `space`, but counted from 0. Distributions are made for it."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: row_space(child) for key, child in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([row_space(child) for child in space.spaces])
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=space.dtype)  # type: ignore[arg-type]
    return space


def row_bounds(space: spaces.Space[Any]) -> tuple[Array, Array]:
    """Return the lowest and the highest number of each column of rows, float32 [width]; infinite where there is none.

    Raises:
        SpaceError: If the space has parts that are no Box.
    """
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = [row_bounds(child) for child in _children(space)]
        low, high = (np.concatenate(bounds) for bounds in zip(*parts, strict=True))
        return low, high
    if not isinstance(space, spaces.Box):
        raise SpaceError(f"{space} has no bounds: a Box was expected, or a Tuple or Dict of such")
    return space.low.reshape(-1).astype(np.float32), space.high.reshape(-1).astype(np.float32)


def actions_of(space: spaces.Space[Any], rows: Array) -> Struct:
    """Return the struct of rows of actions: in the shape and dtype of the space, Discrete from its `start`."""
    if isinstance(space, spaces.Dict):
        columns = _columns(list(space.spaces.values()), rows)
        return {key: actions_of(*pair) for key, pair in zip(space.spaces, columns, strict=True)}
    if isinstance(space, spaces.Tuple):
        return tuple(actions_of(*pair) for pair in _columns(list(space.spaces), rows))
    lanes = rows.shape[0]
    if isinstance(space, spaces.Discrete):
        return rows.reshape(lanes).astype(np.int64, copy=False) + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return (rows.reshape(lanes, *space.shape) + space.start).astype(space.dtype, copy=False)
    row_width(space)
    return rows.reshape(lanes, *(space.shape or ())).astype(space.dtype, copy=False)


def rows_of(space: spaces.Space[Any], actions: Struct) -> Array:
    """Return the rows of a struct of actions: what `actions_of` was given."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        keys = list(space.spaces) if isinstance(space, spaces.Dict) else range(len(space.spaces))
        parts = [rows_of(space.spaces[key], actions[key]) for key in keys]  # type: ignore[index]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1, dtype=np.float32)
    lanes = actions.shape[0]
    if isinstance(space, spaces.Discrete):
        return np.asarray(actions - int(space.start), np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(actions - space.start, np.int64).reshape(lanes, -1)
    row_width(space)
    dtype = np.int64 if isinstance(space, spaces.MultiBinary) else np.float32
    return np.asarray(actions, dtype).reshape(lanes, -1)


def _columns(children: list[spaces.Space[Any]], rows: Array) -> list[tuple[spaces.Space[Any], Array]]:
    """Return each space with its columns of rows; those of Discrete are rounded, as they were whole numbers before."""
    ends = [0, *itertools.accumulate(map(row_width, children))]
    parts = zip(children, (rows[:, start:end] for start, end in itertools.pairwise(ends)), strict=True)
    return [(child, part if isinstance(child, _KEEP) else np.rint(part)) for child, part in parts]


def _children(space: Any) -> list[spaces.Space[Any]]:
    return list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)


_KEEP = (spaces.Box, spaces.Dict, spaces.Tuple)
