"""A ring of rows: columns that are allocated once, where new rows take the places of the oldest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError


class Ring:
    """Rows of columns, the newest `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        """Make an empty ring. Its columns are allocated with the first rows, and take memory as they are filled.

        Raises:
            DataError: If the capacity is less than one row.
        """
        if capacity < 1:
            raise DataError(f"a replay buffer of {capacity} rows holds nothing: its capacity must be at least 1")
        self.capacity = capacity
        self.columns: dict[str, Array] = {}
        self.added = 0
        """The number of rows that were ever added."""

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, batch: Mapping[str, Array]) -> Array:
        """Write rows, over the oldest ones where it is full, and return their places [N].

        Raises:
            DataError: If the columns are not those of the rows before, or shaped otherwise.
        """
        count = len(next(iter(batch.values())))
        self._require_columns(batch)
        places = (self.added + np.arange(count)) % self.capacity
        kept = slice(max(0, count - self.capacity), None)
        for name, column in batch.items():
            self.columns[name][places[kept]] = column[kept]
        self.added += count
        return places[kept]

    def take(self, places: Array) -> Batch:
        """Return the rows at these places, copied."""
        return Batch({name: column.take(places, axis=0) for name, column in self.columns.items()})

    def numbers(self, places: Array) -> Array:
        """Return how many rows were added before those at these places [N].

        It tells a row from those that take its place later; until the ring is full it is the place.
        """
        last = self.added - 1
        found: Array = last - (last - places) % self.capacity
        return found

    def holds(self, numbers: Array) -> Array:
        """Return whether rows with these numbers are still there [N]."""
        found: Array = numbers >= self.added - self.capacity
        return found

    def nbytes(self) -> int:
        """Return how many bytes its columns have when all of them are filled."""
        return sum(column.nbytes for column in self.columns.values())

    def state(self) -> dict[str, Any]:
        """Return the filled rows of all columns, views of them, and how many were ever added."""
        return {"added": self.added, "columns": {name: column[: len(self)] for name, column in self.columns.items()}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned.

        Raises:
            DataError: If it is of a ring of another capacity, where it matters which rows are the oldest.
        """
        self.columns = {}
        filled = state["columns"]
        count = len(next(iter(filled.values()), ()))
        added = int(state["added"])
        if count > self.capacity or (added > count != self.capacity):
            raise DataError(
                f"the saved replay buffer has {count} rows of {added} that were ever added, and this one has room for "
                f"{self.capacity}: make it with the capacity that it was saved with"
            )
        if filled:
            self._require_columns(filled)
        for name, column in filled.items():
            self.columns[name][:count] = column
        self.added = added

    def _require_columns(self, batch: Mapping[str, Array]) -> None:
        if not self.columns:
            self.columns = {
                name: np.zeros((self.capacity, *column.shape[1:]), column.dtype) for name, column in batch.items()
            }
            return
        held = {name: (column.shape[1:], column.dtype) for name, column in self.columns.items()}
        given = {name: (column.shape[1:], column.dtype) for name, column in batch.items()}
        if held != given:
            wrong = sorted(name for name in {*held, *given} if held.get(name) != given.get(name))
            here, there = ([_shown(columns.get(name)) for name in wrong] for columns in (held, given))
            raise DataError(
                f"rows with other columns can't be added to a replay buffer: of {wrong} it holds {here}, and was given "
                f"{there}. All rows need the same columns, shapes and types."
            )


def _shown(column: tuple[tuple[int, ...], np.dtype] | None) -> str:  # type: ignore[type-arg]
    return "none" if column is None else f"{column[1]}{list(column[0])}"
