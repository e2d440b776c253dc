"""Sequences: fragments cut into pieces of a few steps, for modules that remember from step to step.

A piece begins with what was remembered there while the steps were made, so gradients reach back through one piece and
no further. Episodes may end inside: `resets` says where the memory is cleared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment

WHOLE = (columns.OBS, columns.RESETS)
"""The columns that a recurrent module takes as [length, N, ...]; losses take the others as rows."""


class SequenceBatch(Batch):
    """N sequences of some length: `obs` and `resets` are [length, N, ...], all other columns rows [length * N, ...].

    Rows are in the order of the outputs of a module: step after step, and sequence after sequence in each. Where rows
    only fill up a sequence, `loss_mask` [length * N] is 0; there is none where all rows count.

    Attributes:
        state_in: The state of the module before the first step, arrays [N, ...] by their names. The module finds it
            under the name `"state_in"`.
    """

    state_in: dict[str, Array]

    def __init__(self, whole: Mapping[str, Array], state_in: Mapping[str, Array]) -> None:
        """Take columns [length, N, ...] and states [N, ...]."""
        super().__init__()
        for name, column in whole.items():
            rows = column if name in WHOLE else column.reshape(-1, *column.shape[2:])
            dict.__setitem__(self, name, rows)
        self.state_in = dict(state_in)

    def __getitem__(self, key: Any) -> Any:
        """Return a column, or the states under `"state_in"`."""
        return self.state_in if key == columns.STATE_IN else super().__getitem__(key)

    def copy(self, shallow: bool = False) -> SequenceBatch:
        """Return a batch with copies of all columns and states, or with the same arrays if `shallow`."""
        made = super().copy(shallow)
        assert isinstance(made, SequenceBatch)
        made.state_in = {name: state if shallow else state.copy() for name, state in self.state_in.items()}
        return made

    @property
    def count(self) -> int:
        """Return how many steps it holds, without those that fill up."""
        mask = self.get(columns.LOSS_MASK)
        return self[columns.RESETS].size if mask is None else int(mask.sum())


class Sequences:
    """All sequences of some fragments.

    Attributes:
        columns: Arrays [length, N, ...] by their names.
        state_in: The state before the first step of each, arrays [N, ...] by their names.
    """

    def __init__(self, whole: Mapping[str, Array], state_in: Mapping[str, Array]) -> None:
        """Take the arrays."""
        self.columns, self.state_in = dict(whole), dict(state_in)

    @property
    def shape(self) -> tuple[int, int]:
        """Return the length and N."""
        length, count = self.columns[columns.RESETS].shape
        return length, count

    @property
    def count(self) -> int:
        """Return how many steps they hold, without those that fill up."""
        mask = self.columns.get(columns.LOSS_MASK)
        return self.columns[columns.RESETS].size if mask is None else int(mask.sum())

    def only(self, names: Sequence[str]) -> Sequences:
        """Return the sequences with these columns only, and with what their modules and their masks need."""
        kept = {*names, *WHOLE, columns.LOSS_MASK}
        return Sequences({name: column for name, column in self.columns.items() if name in kept}, self.state_in)

    def take(self, chosen: Array) -> SequenceBatch:
        """Return the sequences with these numbers."""
        return SequenceBatch(
            {name: column.take(chosen, axis=1) for name, column in self.columns.items()},
            {name: state.take(chosen, axis=0) for name, state in self.state_in.items()},
        )

    def whole(self) -> SequenceBatch:
        """Return all sequences as one batch."""
        return SequenceBatch(self.columns, self.state_in)

    def minibatches(
        self, size: int, stream: np.random.Generator, *, epochs: int = 1, shuffle: bool = True
    ) -> Iterator[SequenceBatch]:
        """Yield batches of as many whole sequences as fit into `size` steps, one at least; see `Batch.minibatches`."""
        length, count = self.shape
        each = min(max(size // length, 1), count)
        for _ in range(epochs):
            order = stream.permutation(count) if shuffle else np.arange(count)
            for start in range(0, count - each + 1, each):
                yield self.take(order[start : start + each])


def sequences(fragments: Sequence[Fragment], length: int) -> Sequences:
    """Return the steps of fragments of a recurrent module as sequences.

    Args:
        fragments: They need `resets` and `state_in`, as runners write them.
        length: The number of steps of each; less where no fragment has as many. The last one of a lane is filled up
            with
            zeros, which `loss_mask` leaves out.
    """
    length = min(length, max(fragment.shape[0] for fragment in fragments))
    parts = [_cut(fragment, length) for fragment in fragments]
    if any(columns.LOSS_MASK in part.columns for part in parts):
        for part in parts:
            part.columns.setdefault(columns.LOSS_MASK, np.ones(part.shape, np.float32))
    return Sequences(
        {name: np.concatenate([part.columns[name] for part in parts], axis=1) for name in parts[0].columns},
        {name: np.concatenate([part.state_in[name] for part in parts]) for name in parts[0].state_in},
    )


def _cut(fragment: Fragment, length: int) -> Sequences:
    steps, lanes = fragment.shape
    pieces = -(-steps // length)
    found = dict(fragment.columns)
    if fragment.valid is not None or pieces * length != steps:
        found[columns.LOSS_MASK] = (
            np.ones((steps, lanes), np.float32) if fragment.valid is None else fragment.valid.astype(np.float32)
        )
    cut = {name: _folded(column, pieces, length) for name, column in found.items()}
    starts = {
        name: state[::length].reshape(pieces * lanes, *state.shape[2:]) for name, state in fragment.state_in.items()
    }
    sequences = Sequences(cut, starts)
    if columns.LOSS_MASK not in cut:
        return sequences
    filled = cut[columns.LOSS_MASK].any(axis=0)  # Sequences that are only padding are left out.
    return sequences if filled.all() else _chosen(sequences, np.flatnonzero(filled))


def _chosen(sequences: Sequences, numbers: Array) -> Sequences:
    return Sequences(
        {name: column.take(numbers, axis=1) for name, column in sequences.columns.items()},
        {name: state.take(numbers, axis=0) for name, state in sequences.state_in.items()},
    )


def _folded(column: Array, pieces: int, length: int) -> Array:
    """Return [length, pieces * L, ...] of [T, L, ...]: piece after piece, and lane after lane in each."""
    missing = pieces * length - len(column)
    if missing:
        column = np.concatenate([column, np.zeros((missing, *column.shape[1:]), column.dtype)])
    lanes, rest = column.shape[1], column.shape[2:]
    folded: Array = column.reshape(pieces, length, lanes, *rest).swapaxes(0, 1)
    return folded.reshape(length, pieces * lanes, *rest)
