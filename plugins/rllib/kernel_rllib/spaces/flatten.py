"""Flat rows of float32, as networks take them, from structs of any space; and the parts of such rows again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Array, Struct
from kernel_rllib.spaces.repeated import Repeated


class Flattener:
    """Turns structs of a space into float32 rows [..., size], and rows into the nested parts that they are made of.

    Numbers stay as they are; Discrete, MultiDiscrete and the characters of Text become one-hot (Discrete counts from
    its `start`); parts of Dict and Tuple stand one after the other, in the order of the space; Repeated is its length
    and its padded values; OneOf is the one-hot index and all options, those that were not chosen being zeros.

    Raises SpaceError for a space that has no fixed size (Sequence, Graph).
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.original_space = space
        self.size = flat_size(space)
        if not self.size:
            raise SpaceError(f"{space} has no components, so there is nothing to learn from: give it one or more")

    @property
    def space(self) -> spaces.Box:
        """The space of the rows."""
        return spaces.Box(-np.inf, np.inf, (self.size,), np.float32)

    def rows(self, struct: Struct, out: Array | None = None) -> Array:
        """Return the rows of a struct, float32 [..., size]; its arrays may have any number of leading axes.

        out: where to write them.
        """
        if out is None:
            if isinstance(self.original_space, spaces.Box) and struct.dtype == np.float32:
                rows: Array = struct.reshape(*struct.shape[: struct.ndim - len(self.original_space.shape)], self.size)
                return rows
            lead = next(nested.leaves(struct)).shape[: lead_axes(self.original_space, struct)]
            out = np.empty((*lead, self.size), np.float32)
        _flatten(self.original_space, struct, out)
        return out

    def parts(self, rows: Any, reshape: Callable[[Any, tuple[int, ...]], Any] = np.reshape) -> Struct:
        """Return the nested parts of rows: boxes in their shape, categories as one-hot, nothing copied.

        rows: an array [..., size], of numpy or of any library whose arrays can be sliced. reshape: gives an array
        another shape.
        """
        return _parts(self.original_space, rows, reshape)


def flat_size(space: spaces.Space[Any]) -> int:
    """Return how many numbers a flat row of a space has. Raises SpaceError where that is not fixed."""
    if isinstance(space, spaces.Dict):
        return sum(map(flat_size, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return sum(map(flat_size, space.spaces))
    if isinstance(space, spaces.OneOf):
        return len(space.spaces) + sum(map(flat_size, space.spaces))
    if isinstance(space, Repeated):
        return 1 + space.max_len * flat_size(space.child_space)
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.Text):
        return int(space.max_length * len(space.character_set))
    if nested.is_array_space(space):
        return math.prod(space.shape)  # type: ignore[arg-type]
    raise SpaceError(
        f"{space} has no fixed size, so it can't be flattened: use Repeated(space, max_len) for lists, "
        "or a custom model that takes the observations as they are"
    )


def one_hot(index: Array, count: int, out: Array | None = None) -> Array:
    """Return float32 [..., count] with a one at each index of an array of whole numbers [...]."""
    if out is None:
        out = np.empty((*index.shape, count), np.float32)
    np.equal(index[..., None], np.arange(count), out=out, casting="unsafe")
    return out


def lead_axes(space: spaces.Space[Any], struct: Struct) -> int:
    """Return how many axes the first array of a struct has before those of the space."""
    if isinstance(space, spaces.Dict):
        key = next(iter(space.spaces))
        return lead_axes(space.spaces[key], struct[key])
    if isinstance(space, spaces.Tuple):
        return lead_axes(space.spaces[0], struct[0])
    if isinstance(space, Repeated):
        return int(struct["lengths"].ndim)
    if isinstance(space, spaces.OneOf):
        return int(struct[0].ndim)
    if isinstance(space, spaces.Text):
        return int(struct.ndim) - 1
    return int(struct.ndim) - len(space.shape or ())


def _flatten(space: spaces.Space[Any], struct: Struct, out: Array) -> None:
    """Write the rows of a struct into `out` [..., size]."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        children, values = _children(space, struct)
        for child, value, part in zip(children, values, _columns(children, out), strict=True):
            _flatten(child, value, part)
    elif isinstance(space, spaces.OneOf):
        count = len(space.spaces)
        one_hot(struct[0], count, out[..., :count])
        columns = _columns(space.spaces, out[..., count:])
        for option, (child, value, part) in enumerate(zip(space.spaces, struct[1:], columns, strict=True)):
            _flatten(child, value, part)
            part[struct[0] != option] = 0.0
    elif isinstance(space, Repeated):
        out[..., 0] = struct["lengths"]
        _flatten(space.child_space, struct["values"], _items(space, out[..., 1:]))
        padding = np.arange(space.max_len) >= struct["lengths"][..., None]
        _items(space, out[..., 1:])[padding] = 0.0
    elif isinstance(space, spaces.Discrete):
        one_hot(struct - space.start, int(space.n), out)
    elif isinstance(space, spaces.MultiDiscrete):
        index = (struct - space.start).reshape(*out.shape[:-1], -1)
        ends = np.cumsum(space.nvec.ravel())
        for place, (end, count) in enumerate(zip(ends, space.nvec.ravel(), strict=True)):
            one_hot(index[..., place], int(count), out[..., end - count : end])
    elif isinstance(space, spaces.Text):
        count = len(space.character_set)
        one_hot(struct, count, out.reshape(*out.shape[:-1], space.max_length, count))
    else:
        out[...] = struct.reshape(out.shape)


def _parts(space: spaces.Space[Any], rows: Any, reshape: Callable[[Any, tuple[int, ...]], Any]) -> Struct:
    if isinstance(space, spaces.Dict):
        columns = _columns(list(space.spaces.values()), rows)
        keyed = zip(space.spaces.items(), columns, strict=True)
        return {key: _parts(child, part, reshape) for (key, child), part in keyed}
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, _columns(space.spaces, rows), strict=True)
        return tuple(_parts(child, part, reshape) for child, part in pairs)
    if isinstance(space, spaces.OneOf):
        count = len(space.spaces)
        pairs = zip(space.spaces, _columns(space.spaces, rows[..., count:]), strict=True)
        return (rows[..., :count], *(_parts(child, part, reshape) for child, part in pairs))
    lead = tuple(rows.shape[:-1])
    if isinstance(space, Repeated):
        items = reshape(rows[..., 1:], (*lead, space.max_len, flat_size(space.child_space)))
        return {"lengths": rows[..., 0], "values": _parts(space.child_space, items, reshape)}
    if isinstance(space, spaces.Text):
        return reshape(rows, (*lead, space.max_length, len(space.character_set)))
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) or len(space.shape or ()) == 1:
        return rows
    return reshape(rows, (*lead, *(space.shape or ())))


def _children(space: spaces.Dict | spaces.Tuple[Any], struct: Struct) -> tuple[list[spaces.Space[Any]], list[Struct]]:
    if isinstance(space, spaces.Dict):
        return list(space.spaces.values()), [struct[key] for key in space.spaces]
    return list(space.spaces), list(struct)


def _columns(children: Any, rows: Any) -> list[Any]:
    """Return the columns of rows [..., size] that belong to each of some spaces, which stand one after the other."""
    ends = [0, *itertools.accumulate(map(flat_size, children))]
    return [rows[..., start:end] for start, end in itertools.pairwise(ends)]


def _items(space: Repeated, out: Array) -> Array:
    """Return the columns that hold the values of a Repeated as [..., max_len, size of one].

    Only the last axis is split, which numpy can do with a view of any strides.
    """
    return np.reshape(out, (*out.shape[:-1], space.max_len, flat_size(space.child_space)))
