"""Structs: nested values of many lanes as arrays, whose first axis is the lanes.

    Dict({"camera": Box(0, 255, (8, 8), uint8), "gear": Discrete(5)}), 16 lanes:
    {"camera": uint8 [16, 8, 8], "gear": int64 [16]}

A value of one lane (a *row*) is a struct without that axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from kernel_rllib.spaces.repeated import Repeated

Array: TypeAlias = np.ndarray[Any, Any]
Struct: TypeAlias = Any
"""An array, or a dict or a tuple of structs."""


def empty(space: spaces.Space[Any], lanes: int) -> Struct:
    """Return a struct of zeros that holds values of a space for this many lanes.

    Boxes and what is like them keep their dtype; Discrete is int64; Text is int32 [lanes, max_length], indexes of
    characters; Repeated is {"lengths": int64 [lanes], "values": a struct [lanes, max_len, ...]}; OneOf is a tuple of
    the index and one struct for each option. Sequence, Graph and spaces that are not known here, and have no shape,
    are arrays of Python objects.
    """
    return _empty(space, (lanes,))


def _empty(space: spaces.Space[Any], lead: tuple[int, ...]) -> Struct:
    if isinstance(space, spaces.Dict):
        return {key: _empty(child, lead) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_empty(child, lead) for child in space.spaces)
    if isinstance(space, spaces.OneOf):
        return (np.zeros(lead, np.int64), *(_empty(child, lead) for child in space.spaces))
    if isinstance(space, Repeated):
        return {"lengths": np.zeros(lead, np.int64), "values": _empty(space.child_space, (*lead, space.max_len))}
    if isinstance(space, spaces.Discrete):
        return np.zeros(lead, np.int64)
    if isinstance(space, spaces.Text):
        return np.full((*lead, space.max_length), len(space.character_set), np.int32)
    if is_array_space(space):
        return np.zeros((*lead, *space.shape), space.dtype)  # type: ignore[misc]
    return np.empty(lead, object)


def is_array_space(space: spaces.Space[Any]) -> bool:
    """Return whether values of a space are arrays of one shape and dtype."""
    return (
        not isinstance(space, (spaces.Sequence, spaces.Graph)) and space.shape is not None and space.dtype is not None
    )


def has_objects(struct: Struct) -> bool:
    """Return whether a part of a struct is Python objects, which no shared memory can hold."""
    return any(leaf.dtype == object for leaf in leaves(struct))


def has_nan(struct: Struct) -> bool:
    """Return whether NaN is somewhere in a struct."""
    if isinstance(struct, (dict, tuple)):
        return any(map(has_nan, struct.values() if isinstance(struct, dict) else struct))
    if not isinstance(struct, np.ndarray) or struct.dtype.kind != "f":
        return False
    flat = struct.ravel()
    return math.isnan(flat.dot(flat))  # if and only if there is one: squares don't cancel each other


def leaves(struct: Struct) -> Iterator[Array]:
    """Yield the arrays of a struct, in order."""
    if isinstance(struct, dict):
        for part in struct.values():
            yield from leaves(part)
    elif isinstance(struct, tuple):
        for part in struct:
            yield from leaves(part)
    else:
        yield struct


def mapped(function: Callable[..., Any], struct: Struct, *others: Struct) -> Struct:
    """Return a struct of what a function makes of each array, and of the arrays at the same place of `others`."""
    if isinstance(struct, dict):
        return {key: mapped(function, part, *(other[key] for other in others)) for key, part in struct.items()}
    if isinstance(struct, tuple):
        return tuple(mapped(function, *parts) for parts in zip(struct, *others, strict=True))
    return function(struct, *others)


def row(struct: Struct, lane: int) -> Struct:
    """Return the value of one lane, as a copy."""
    if not isinstance(struct, np.ndarray):
        return mapped(lambda array: row(array, lane), struct)
    value = struct[lane]
    if isinstance(value, np.ndarray) and struct.dtype != object:
        return value.copy()
    return value if struct.dtype == object else np.array(value)


def rows(struct: Struct, lanes: Any) -> Struct:
    """Return the lanes that an index array or a slice chooses; of a slice, views."""
    return mapped(lambda array: array[lanes], struct)


def write_row(struct: Struct, lane: int, value: Struct) -> None:
    """Set the value of one lane."""
    if isinstance(struct, np.ndarray):
        struct[lane] = value
    elif isinstance(struct, dict):
        for key, part in struct.items():
            write_row(part, lane, value[key])
    else:
        for part, part_value in zip(struct, value, strict=True):
            write_row(part, lane, part_value)


def write(struct: Struct, source: Struct) -> None:
    """Copy all lanes of `source` into a struct of the same form."""
    mapped(np.copyto, struct, source)


def copy(struct: Struct) -> Struct:
    """Return a copy."""
    return mapped(np.copy, struct)


def concatenate(structs: Sequence[Struct]) -> Struct:
    """Return the lanes of several structs in one."""
    return mapped(lambda *arrays: np.concatenate(arrays), *structs)


def unstack(space: spaces.Space[Any], struct: Struct) -> list[Any]:
    """Return the value of each lane as an environment knows it: scalars for Discrete, dicts, tuples, arrays, text.

    The arrays are views.
    """
    if isinstance(space, spaces.Dict):
        keys = list(space.spaces)
        columns = [unstack(space.spaces[key], struct[key]) for key in keys]
        return [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]
    if isinstance(space, spaces.Tuple):
        return list(zip(*(unstack(*pair) for pair in zip(space.spaces, struct, strict=True)), strict=True))
    if isinstance(space, spaces.OneOf):
        options = [unstack(*pair) for pair in zip(space.spaces, struct[1:], strict=True)]
        return [(index, options[index][lane]) for lane, index in enumerate(struct[0])]
    if isinstance(space, Repeated):
        lengths = struct["lengths"]
        return [
            unstack(space.child_space, mapped(lambda array, lane=lane: array[lane], struct["values"]))[: lengths[lane]]
            for lane in range(len(lengths))
        ]
    if isinstance(space, spaces.Text):
        return ["".join(space.character_list[i] for i in line if i < len(space.character_set)) for line in struct]
    return list(struct)
