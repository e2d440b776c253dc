"""All parameters of a network as one flat vector, and the table of what is where in it."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.errors import ModuleError


class Entry(NamedTuple):
    """One parameter: its shape, and the numbers of the vector that are its own."""

    shape: tuple[int, ...]
    place: slice


class ParameterTable:
    """Names, shapes and places of the parameters in a vector, in order and without gaps.

    `shapes` gives the shape of each by its name, such as "policy/hidden_0/weight". A table never changes.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]]) -> None:
        self._entries: dict[str, Entry] = {}
        end = 0
        for name, lengths in shapes.items():
            shape = tuple(int(length) for length in lengths)
            if any(length < 0 for length in shape):
                raise ModuleError(f"parameter {name!r} was given the shape {shape}: no length may be negative")
            begin, end = end, end + math.prod(shape)
            self._entries[name] = Entry(shape, slice(begin, end))
        self.size = end
        """The size of the vector."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParameterTable) and list(self.items()) == list(other.items())

    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> Entry:
        try:
            return self._entries[name]
        except KeyError:
            raise ModuleError(f"there is no parameter {name!r}: there are {self._names()}") from None

    def __repr__(self) -> str:
        return f"ParameterTable({self.shapes()})"

    def items(self) -> Iterator[tuple[str, Entry]]:
        """Yield names and entries, in the order of the vector."""
        return iter(self._entries.items())

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter: what a table is made from, and can be written down as."""
        return {name: entry.shape for name, entry in self._entries.items()}

    def views(self, vector: Any) -> dict[str, Any]:
        """Return each parameter as a view of `vector` [size], a numpy array or a torch tensor: no copies.

        Raises ModuleError where the vector has another length.
        """
        if tuple(vector.shape) != (self.size,):
            raise ModuleError(
                f"the vector of parameters has shape {tuple(vector.shape)}, and the table {self._names()} describes "
                f"({self.size},): take the vector that belongs to it"
            )
        return {name: vector[entry.place].reshape(entry.shape) for name, entry in self._entries.items()}

    def vector(self, values: Mapping[str, Any], dtype: Any = np.float32) -> NDArray[Any]:
        """Return a new vector of these parameters; raise ModuleError where one is missing, unknown or misshapen."""
        unknown = [name for name in values if name not in self._entries]
        if unknown:
            raise ModuleError(f"there is no parameter {unknown[0]!r}: there are {self._names()}")
        vector = np.empty(self.size, dtype)
        for name, entry in self._entries.items():
            if name not in values:
                raise ModuleError(f"the value of parameter {name!r} is missing: give one for each of {self._names()}")
            value = np.asarray(values[name])
            if value.shape != entry.shape:
                raise ModuleError(f"parameter {name!r} has shape {entry.shape}, and was given values of {value.shape}")
            vector[entry.place] = value.reshape(-1)
        return vector

    def prefixed(self, prefix: str) -> ParameterTable:
        """Return the same table with `prefix` and a slash before each name."""
        return ParameterTable({f"{prefix}/{name}": entry.shape for name, entry in self._entries.items()})

    @staticmethod
    def joined(tables: Mapping[str, ParameterTable]) -> ParameterTable:
        """Return one table of several, one after the other, each prefixed with its key."""
        shapes: dict[str, tuple[int, ...]] = {}
        for prefix, table in tables.items():
            shapes.update(table.prefixed(prefix).shapes())
        return ParameterTable(shapes)

    def part(self, prefix: str) -> tuple[ParameterTable, slice]:
        """Return the table of the parameters below `prefix`, without it, and their place in the vector.

        Raises ModuleError where there are none, or where others stand between them.
        """
        start = prefix.rstrip("/") + "/"
        places = self.mask([start + "*"])
        if len(places) != 1:
            found = "there are none" if not places else "others stand between them"
            raise ModuleError(f"the parameters below {prefix!r} are asked for, and {found}: there are {self._names()}")
        shapes = {name[len(start) :]: entry.shape for name, entry in self._entries.items() if name.startswith(start)}
        return ParameterTable(shapes), places[0]

    def mask(self, patterns: Sequence[str]) -> list[slice]:
        """Return the places of the parameters that match one of `patterns` ("policy/*", "*/bias"), joined where they
        touch. A pattern without wildcards matches the name itself and all that is below it."""
        slices: list[slice] = []
        for name, entry in self._entries.items():
            if any(matches(name, pattern) for pattern in patterns):
                if slices and slices[-1].stop == entry.place.start:
                    slices[-1] = slice(slices[-1].start, entry.place.stop)
                else:
                    slices.append(entry.place)
        return slices

    def _names(self) -> str:
        names = list(self._entries)
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "none"


def matches(name: str, pattern: str) -> bool:
    """Return whether a parameter's name fits a pattern; one without wildcards stands for all below it as well."""
    if any(character in pattern for character in "*?["):
        return fnmatch.fnmatchcase(name, pattern)
    return name == pattern or name.startswith(pattern if pattern.endswith("/") else pattern + "/")
