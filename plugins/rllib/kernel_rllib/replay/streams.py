"""Replay of streams: what lanes saw, row after row across the ends of episodes, to be learned from in sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import DataError

FIRSTS, TERMINALS = "firsts", "terminals"
"""The columns that say where episodes begin, and which rows nothing follows."""


class StreamReplay:
    """Keeps the last rows of each lane. The final observation of an episode is a row of its own."""

    def __init__(self, capacity: int, width: int) -> None:
        """Keep this many rows of all lanes together.

        Args:
            capacity: The largest number of rows.
            width: The width of a row.
        """
        self._capacity, self._width = capacity, width
        self._lanes: list[int] = []
        self._columns: dict[str, Array] = {}
        self._written = np.zeros(0, np.int64)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return int(np.minimum(self._written, self._each).sum()) if self._lanes else 0

    @property
    def _each(self) -> int:
        return max(self._capacity // max(len(self._lanes), 1), 1)

    def add(self, fragment: Fragment) -> None:
        """Keep what a fragment saw. The first one has all lanes; later ones may have fewer, where runners are lost.

        Args:
            fragment: With the column `resets`, and observations as rows [T, L, F].

        Raises:
            DataError: If it has a lane that the first one had not.
        """
        lanes = fragment.lanes.tolist()
        if not self._lanes:
            self._begin(lanes)
        unknown = sorted(set(lanes) - set(self._lanes))
        if unknown:
            raise DataError(
                f"a fragment has lanes {unknown}, and the buffer is shared by lanes {self._lanes}: add one with all "
                "lanes first"
            )
        for position, lane in enumerate(lanes):
            self._write(self._lanes.index(lane), _rows_of(fragment, position))

    def sequences(self, steps: int) -> int:
        """Return how many different sequences of some steps there are."""
        return int(self._starts(steps).sum())

    def sample(self, count: int, steps: int, stream: np.random.Generator) -> dict[str, Array]:
        """Return sequences, each as likely as any other: `obs` [T, B, F], `firsts` and `terminals` [T, B].

        Args:
            count: The number of sequences, B.
            steps: Their length, T.
            stream: The generator of random numbers that they are drawn by.
        """
        starts = self._starts(steps)
        drawn = stream.integers(starts.sum(), size=count)
        ends = np.cumsum(starts)
        lanes = np.searchsorted(ends, drawn, side="right")
        oldest = np.maximum(self._written - self._each, 0)
        first = oldest[lanes] + drawn - (ends - starts)[lanes]
        places = (first + np.arange(steps)[:, None]) % self._each
        return {name: column[lanes, places] for name, column in self._columns.items()}

    def state(self) -> dict[str, Any]:
        """Return all rows, as arrays."""
        most = int(min(self._written.max(initial=0), self._each))
        kept = {name: column[:, :most].copy() for name, column in self._columns.items()}
        return {"lanes": list(self._lanes), "written": self._written.copy(), "columns": kept}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self._lanes, self._columns = [], {}
        if not state["lanes"]:
            return
        self._begin([int(lane) for lane in state["lanes"]])
        self._written = np.array(state["written"], np.int64)
        for name, column in state["columns"].items():
            self._columns[name][:, : column.shape[1]] = column

    def _begin(self, lanes: list[int]) -> None:
        self._lanes, count = lanes, len(lanes)
        self._written = np.zeros(count, np.int64)
        self._columns = {
            columns.OBS: np.zeros((count, self._each, self._width), np.float32),
            FIRSTS: np.zeros((count, self._each), bool),
            TERMINALS: np.zeros((count, self._each), bool),
        }

    def _starts(self, steps: int) -> Array:
        """Return how many sequences of some steps each lane has."""
        found: Array = np.maximum(np.minimum(self._written, self._each) - steps + 1, 0)
        return found

    def _write(self, slot: int, rows: Mapping[str, Array]) -> None:
        count = len(rows[FIRSTS])
        places = (self._written[slot] + np.arange(count)) % self._each
        for name, column in rows.items():
            self._columns[name][slot, places[-self._each :]] = column[-self._each :]
        self._written[slot] += count


def _rows_of(fragment: Fragment, position: int) -> dict[str, Array]:
    """Return the rows of one lane, with final observations after the steps that they follow."""
    here = fragment.final_at[:, 1] == position
    ends, final = fragment.final_at[here, 0], fragment.final_obs[here]
    found = fragment.columns
    valid = np.ones(fragment.shape[0], bool) if fragment.valid is None else fragment.valid[:, position]
    rows, firsts = found[columns.OBS][:, position], found[columns.RESETS][:, position]
    terminals = np.zeros(len(rows), bool)
    after = ends + 1
    kept = np.insert(valid, after, valid[ends])
    return {
        columns.OBS: np.insert(rows, after, final, axis=0)[kept],
        FIRSTS: np.insert(firsts, after, False)[kept],
        TERMINALS: np.insert(terminals, after, found[columns.TERMINATEDS][ends, position])[kept],
    }
