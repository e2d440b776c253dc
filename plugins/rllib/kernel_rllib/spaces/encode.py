"""Check a value that an environment returned for a space, and make a struct of it.

Environments are generous: they return lists and whole numbers for a Box of floats, numpy scalars, float64 for float32,
a number where an array of one number is wanted. All that means the same is converted; what does not is a SpaceError
that names the environment, the method, what it returned and what the space expects.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Array, Struct
from kernel_rllib.spaces.repeated import Repeated

_short = reprlib.Repr()
_short.maxother = _short.maxstring = 80
_NO_NUMBERS = "OSUVMmc"
"""The kinds of dtypes whose values are no real numbers."""


class Encoder:
    """Makes structs of what an environment returns for a space.

    owner: the environment's name, for messages. what: "observation" or "action". space_name: how the space is called
    there, such as "observation_space". verb: "returned", or "got" for values that are given to the owner.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        owner: str,
        what: str = "observation",
        space_name: str = "observation_space",
        verb: str = "returned",
    ) -> None:
        self.space = space
        self._owner = owner
        self._what = what
        self._space_name = space_name
        self._verb = verb
        self._node = _node(space)

    def batch(self, values: Sequence[Any], method: str) -> Struct:
        """Return the values of some lanes as a struct. Raises SpaceError; `method` returned them, for its message."""
        try:
            return self._node.batch(values)
        except (_Mismatch, TypeError, ValueError, KeyError, OverflowError):
            struct = nested.empty(self.space, len(values))
            for lane, value in enumerate(values):
                nested.write_row(struct, lane, self.one(value, method, lane))
            return struct

    def one(self, value: Any, method: str, lane: int | None = None) -> Struct:
        """Return the value of one lane as a row. Raises SpaceError, which names `lane` where one is given."""
        if isinstance(value, np.ndarray) and self._node.is_exact(value):
            return value.copy()
        if type(value) is int and self._node.is_index(value):
            return np.array(value)
        try:
            return nested.row(self._node.batch([value]), 0)
        except _Mismatch as mismatch:
            raise SpaceError(self._said(value, method, lane, mismatch)) from None

    def _said(self, value: Any, method: str, lane: int | None, mismatch: _Mismatch) -> str:
        where = "" if lane is None else f" of lane {lane}"
        shown = " ".join(_short.repr(value).split())
        return (
            f"{self._owner}.{method}() {self._verb} {mismatch.found} as {self._what}{mismatch.path}{where}, but "
            f"{self._space_name}{mismatch.path} is {mismatch.space}: {mismatch.advice} ({self._verb}: {shown})"
        )


class _Mismatch(Exception):
    """A value is not of its space."""

    def __init__(self, space: spaces.Space[Any], found: str, advice: str, path: str = "") -> None:
        super().__init__(found)
        self.space = space
        self.found = found
        self.advice = advice
        self.path = path

    def inside(self, key: Any) -> _Mismatch:
        return _Mismatch(self.space, self.found, self.advice, f"[{key!r}]{self.path}")


class _Node:
    """One space in a tree of spaces."""

    def is_exact(self, value: Array) -> bool:
        """Return whether an array needs no conversion and no further check."""
        return False

    def is_index(self, value: int) -> bool:
        """Return whether a whole number is a value of the space as it is."""
        return False

    def batch(self, values: Sequence[Any]) -> Struct:
        """Return the values as a struct. Raises _Mismatch, or what numpy raises where one of them is none."""
        raise NotImplementedError


class _Numbers(_Node):
    """Arrays of one shape and dtype: Box, MultiBinary, MultiDiscrete, Simplex."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        assert space.shape is not None and space.dtype is not None
        self.space = space
        self.shape = space.shape
        self.dtype = np.dtype(space.dtype)
        self._least, self._most = _bounds(space)

    def is_exact(self, value: Array) -> bool:
        return value.dtype == self.dtype and value.shape == self.shape and self._least is None

    def batch(self, values: Sequence[Any]) -> Struct:
        try:
            found = np.array(values)
        except ValueError:  # arrays of several shapes, or lists within lists
            found = _array(values)
        if found.dtype == self.dtype and found.shape[1:] == self.shape:
            if self._least is not None:
                self._check_bounds(found)
            return found
        return self._converted(values, found)

    def _converted(self, values: Sequence[Any], found: Array) -> Array:
        if found.dtype.kind in _NO_NUMBERS:
            raise self._mismatch(_described(values[0]))
        wanted = (len(values), *self.shape)
        if found.shape != wanted:
            if found.size != len(values) or found.size != np.prod(wanted):
                raise self._mismatch(_described(values[0]))
            found = found.reshape(wanted)
        return self._cast(found, values)

    def _cast(self, found: Array, values: Sequence[Any]) -> Array:
        if self.dtype.kind == "f":
            with np.errstate(over="ignore"):
                return found.astype(self.dtype)
        with np.errstate(invalid="ignore"):
            cast = found.astype(self.dtype)
        if not np.array_equal(cast, found):
            raise self._mismatch(
                f"values that {self.dtype} can't hold, such as {found[cast != found].flat[0].item()!r},"
            )
        if self._least is not None:
            self._check_bounds(cast)
        return cast

    def _check_bounds(self, found: Array) -> None:
        outside = (found < self._least) | (found > self._most)
        if outside.any():
            raise self._mismatch(f"the number {found[outside][0]}", "return whole numbers within its bounds")

    def _mismatch(self, found: str, advice: str = "") -> _Mismatch:
        wanted = f"return an array of shape {self.shape} that fits {self.dtype}, or change the space"
        return _Mismatch(self.space, found, advice or wanted)


class _Index(_Node):
    """Discrete: whole numbers from `start`."""

    def __init__(self, space: spaces.Discrete) -> None:
        self.space = space
        self._least = int(space.start)
        self._most = int(space.start + space.n) - 1

    def is_index(self, value: int) -> bool:
        return self._least <= value <= self._most

    def batch(self, values: Sequence[Any]) -> Struct:
        found = _array(values)
        if found.dtype.kind in _NO_NUMBERS or found.size != len(values):
            raise self._mismatch(_described(values[0]))
        with np.errstate(invalid="ignore"):
            index = found.reshape(len(values)).astype(np.int64)
        if found.dtype.kind == "f" and not np.array_equal(index, found.reshape(len(values))):
            raise self._mismatch(f"{found.item(0)!r}, which is no whole number,")
        if index.min() < self._least or index.max() > self._most:
            raise self._mismatch(f"{index[(index < self._least) | (index > self._most)][0]}")
        return index

    def _mismatch(self, found: str) -> _Mismatch:
        return _Mismatch(self.space, found, f"return a whole number from {self._least} to {self._most}")


class _Text(_Node):
    """Text: strings, as indexes of characters."""

    def __init__(self, space: spaces.Text) -> None:
        self.space = space

    def batch(self, values: Sequence[Any]) -> Struct:
        struct = nested.empty(self.space, len(values))
        for line, value in zip(struct, values, strict=True):
            if not isinstance(value, str):
                raise _Mismatch(self.space, _described(value), "return a string")
            if not self.space.contains(value):
                raise _Mismatch(self.space, _described(value), "return a string of that length, of its characters")
            line[: len(value)] = [self.space.character_index(character) for character in value]
        return struct


class _Dict(_Node):
    """Dict: mappings with the keys of the space."""

    def __init__(self, space: spaces.Dict) -> None:
        self.space = space
        self._children = {key: _node(child) for key, child in space.spaces.items()}

    def batch(self, values: Sequence[Any]) -> Struct:
        for value in values:
            self._check_keys(value)
        struct = {}
        for key, child in self._children.items():
            try:
                struct[key] = child.batch([value[key] for value in values])
            except _Mismatch as mismatch:
                raise mismatch.inside(key) from None
        return struct

    def _check_keys(self, value: Any) -> None:
        keys = self._children.keys()
        try:
            if value.keys() == keys:
                return
        except AttributeError:
            raise _Mismatch(self.space, _described(value), f"return a dict with the keys {list(keys)}") from None
        missing = [key for key in keys if key not in value]
        unknown = [key for key in value if key not in keys]
        found = " and ".join(
            [f"a dict without {missing}"] * bool(missing) + [f"a dict with unknown keys {unknown}"] * bool(unknown)
        )
        raise _Mismatch(self.space, found, f"return a dict with the keys {list(keys)}")


class _Tuple(_Node):
    """Tuple: tuples or lists with one value for each space."""

    def __init__(self, space: spaces.Tuple[Any]) -> None:
        self.space = space
        self._children = [_node(child) for child in space.spaces]

    def batch(self, values: Sequence[Any]) -> Struct:
        count = len(self._children)
        for value in values:
            if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != count:
                raise _Mismatch(self.space, _described(value), f"return a tuple of {count} values")
        struct = []
        for index, child in enumerate(self._children):
            try:
                struct.append(child.batch([value[index] for value in values]))
            except _Mismatch as mismatch:
                raise mismatch.inside(index) from None
        return tuple(struct)


class _OneOf(_Node):
    """OneOf: (index of the option, value)."""

    def __init__(self, space: spaces.OneOf[Any]) -> None:
        self.space = space
        self._children = [_node(child) for child in space.spaces]

    def batch(self, values: Sequence[Any]) -> Struct:
        struct = nested.empty(self.space, len(values))
        for lane, value in enumerate(values):
            if not isinstance(value, tuple) or len(value) != 2 or value[0] not in range(len(self._children)):
                raise _Mismatch(self.space, _described(value), "return (index of the option, value)")
            option = int(value[0])
            try:
                struct[0][lane] = option
                nested.write_row(struct[1 + option], lane, nested.row(self._children[option].batch([value[1]]), 0))
            except _Mismatch as mismatch:
                raise mismatch.inside(option) from None
        return struct


class _Repeated(_Node):
    """Repeated: lists, padded to their greatest length."""

    def __init__(self, space: Repeated) -> None:
        self.space = space
        self._child = _node(space.child_space)

    def batch(self, values: Sequence[Any]) -> Struct:
        struct = nested.empty(self.space, len(values))
        for lane, value in enumerate(values):
            if not isinstance(value, (list, tuple, np.ndarray)) or len(value) > self.space.max_len:
                raise _Mismatch(self.space, _described(value), f"return a list of at most {self.space.max_len} values")
            struct["lengths"][lane] = len(value)
            for place, item in enumerate(value):
                try:
                    child = nested.row(self._child.batch([item]), 0)
                except _Mismatch as mismatch:
                    raise mismatch.inside(place) from None
                nested.write_row(nested.mapped(lambda array, lane=lane: array[lane], struct["values"]), place, child)
        return struct


class _Objects(_Node):
    """Sequence, Graph and unknown spaces: the values as they are."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space

    def batch(self, values: Sequence[Any]) -> Struct:
        struct = np.empty(len(values), object)
        for lane, value in enumerate(values):
            if not self.space.contains(value):
                raise _Mismatch(self.space, _described(value), "return a value that the space contains")
            struct[lane] = value
        return struct


def _node(space: spaces.Space[Any]) -> _Node:
    if isinstance(space, spaces.Dict):
        return _Dict(space)
    if isinstance(space, spaces.Tuple):
        return _Tuple(space)
    if isinstance(space, spaces.OneOf):
        return _OneOf(space)
    if isinstance(space, Repeated):
        return _Repeated(space)
    if isinstance(space, spaces.Discrete):
        return _Index(space)
    if isinstance(space, spaces.Text):
        return _Text(space)
    if nested.is_array_space(space):
        return _Numbers(space)
    return _Objects(space)


def _bounds(space: spaces.Space[Any]) -> tuple[Any, Any]:
    """Return the least and the greatest values that are checked: of categories, not of what is measured."""
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return 0, 1
    return None, None


def _array(values: Sequence[Any]) -> Array:
    try:
        return np.array(values)
    except ValueError:
        return np.array([None] * len(values), object)


def _described(value: Any) -> str:
    """Return a value as a message shows it."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, (list, tuple)):
        kind = type(value).__name__
        try:
            return f"a {kind} of shape {np.shape(value)}" if value else f"an empty {kind}"
        except ValueError:
            return f"a {kind} of {len(value)}"
    if value is None:
        return "None"
    return f"{_short.repr(value)} ({type(value).__name__})"
