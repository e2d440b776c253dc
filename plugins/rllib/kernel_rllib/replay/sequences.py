"""Replay of sequences for networks that remember (Kapturowski et al., 2019, R2D2): evenly, or by priority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.nn.schedules import Schedule, schedule
from kernel_rllib.replay.episodes import Piece, arrays_of, pieces_of_arrays
from kernel_rllib.replay.replay import require_rows
from kernel_rllib.replay.sum_tree import MinTree, SumTree


class Drawn(NamedTuple):
    """Sequences of a minibatch, by what their losses are weighed [N], and their places [N]."""

    pieces: list[Piece]
    weights: Array
    places: Array


class SequenceReplay:
    """Keeps the newest sequences. New ones have the largest priority so far."""

    def __init__(self, slots: int, *, alpha: float = 0.0, beta: float | Schedule = 0.4, epsilon: float = 1e-6) -> None:
        """Keep nothing yet.

        Args:
            slots: The number of sequences that are kept; then the oldest go.
            alpha: The exponent of priorities; 0: they don't count, and all are drawn alike.
            beta: The exponent of weights, which make up for being drawn often: 1 for wholly; or its schedule over env
                steps.
            epsilon: The number that is added to errors, so that every sequence may be drawn again.
        """
        self._slots, self._alpha, self._beta, self._epsilon = slots, alpha, schedule(beta, "beta"), epsilon
        self._pieces: list[Piece] = []
        self._next = 0
        self._largest = 1.0
        self._sums, self._smallest = SumTree(slots), MinTree(slots)

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, pieces: Sequence[Piece]) -> None:
        """Keep these; the oldest ones go where there are too many."""
        for piece in pieces:
            place, self._next = self._next, (self._next + 1) % self._slots
            if place == len(self._pieces):
                self._pieces.append(piece)
            else:
                self._pieces[place] = piece
            self._set(np.array([place]), np.array([self._largest]))

    def sample(self, count: int, stream: np.random.Generator, timestep: int = 0) -> Drawn:
        """Return `count` sequences, one from each of as many equal parts of the sum of all priorities.

        Args:
            count: The number of sequences.
            stream: The generator of random numbers that they are drawn by.
            timestep: The number of steps that all lanes of the run have made; `beta` goes by it.

        Raises:
            DataError: If it is empty.
        """
        require_rows(len(self))
        places = self._sums.find((np.arange(count) + stream.random(count)) * (self._sums.all / count))
        weights = (self._sums[places] / self._smallest.all) ** -self._beta.value(timestep)
        return Drawn([self._pieces[place] for place in places], weights.astype(np.float32), places)

    def update_priorities(self, places: Array, errors: Array) -> None:
        """Draw these sequences from now on by how large their errors [N] are."""
        priorities = np.abs(np.asarray(errors, np.float64)) + self._epsilon
        self._largest = max(self._largest, float(priorities.max(initial=0.0)))
        self._set(places, priorities)

    def state(self) -> dict[str, Any]:
        """Return its sequences and their priorities."""
        priorities = self._sums[np.arange(len(self))]
        return {**arrays_of(self._pieces), "priorities": priorities, "largest": self._largest, "next": self._next}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, of a buffer with as many slots."""
        self._pieces = pieces_of_arrays(state)
        self._next, self._largest = int(state["next"]), float(state["largest"])
        self._sums, self._smallest = SumTree(self._slots), MinTree(self._slots)
        places = np.arange(len(self))
        self._sums[places] = self._smallest[places] = state["priorities"]

    def _set(self, places: Array, priorities: Array) -> None:
        powers = priorities**self._alpha
        self._sums[places] = powers
        self._smallest[places] = powers


def priority_of_sequences(errors: Array, mask: Array, eta: float) -> Array:
    """Return eta max |error| + (1 - eta) mean |error| over the steps of each sequence [N]: section 2.3 of R2D2.

    Args:
        errors: Of each step [T, N].
        mask: 1 where there is a step [T, N].
        eta: The share of the largest error, from 0 to 1.
    """
    sizes = np.abs(errors) * mask
    found: Array = eta * sizes.max(axis=0) + (1 - eta) * sizes.sum(axis=0) / np.maximum(mask.sum(axis=0), 1)
    return found
