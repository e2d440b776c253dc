"""Describe the part of a value that is outside of its space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.spaces.nested import Struct
from kernel_rllib.spaces.simplex import Simplex


def outside(space: spaces.Space[Any], row: Struct, path: str = "") -> str:
    """Return which element of a row is beyond the bounds of its space ("[2] is 3.5, above 1.0"), or "".

    row: a value of one lane, of the right form (see `encode`); NaN is outside of everything.
    """
    if isinstance(space, spaces.Dict):
        parts = ((f"{path}[{key!r}]", child, row[key]) for key, child in space.spaces.items())
        return next(filter(None, (outside(child, value, name) for name, child, value in parts)), "")
    if isinstance(space, spaces.Tuple):
        pairs = enumerate(zip(space.spaces, row, strict=True))
        return next(filter(None, (outside(child, value, f"{path}[{place}]") for place, (child, value) in pairs)), "")
    if not isinstance(space, spaces.Box):
        return ""
    for wrong, word, bound in (
        (np.isnan(row), "which is no number, beside", space.low),
        (row < space.low, "below", space.low),
        (row > space.high, "above", space.high),
    ):
        if wrong.any():
            place = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(wrong)))
            where = path + ("" if row.ndim == 0 else str(list(place)))
            value = np.atleast_1d(row)[place]
            return f"{f'element {where}' if where else 'it'} is {value}, {word} {np.atleast_1d(bound)[place]}"
    if isinstance(space, Simplex) and not space.contains(row):
        return f"the shares{path and f' in {path}'} add up to {np.sum(row, axis=-1)}, and not to 1"
    return ""
