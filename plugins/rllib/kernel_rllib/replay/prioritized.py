"""Replay by priority: rows with large errors are drawn more often (Schaul et al., 2015).

P(i) = p_i^alpha / sum p^alpha with p_i = |error_i| + epsilon (equation 1 and section 3.3), weights
w_i = (N P(i))^-beta, divided by the largest one that the buffer could give (section 3.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.nn.schedules import Schedule, schedule
from kernel_rllib.replay.replay import require_rows
from kernel_rllib.replay.ring import Ring
from kernel_rllib.replay.sum_tree import MinTree, SumTree


class PrioritizedReplay:
    """Draws rows in proportion to a power of their last error. New rows have the largest priority so far."""

    def __init__(
        self, capacity: int, *, alpha: float = 0.6, beta: float | Schedule = 0.4, epsilon: float = 1e-6
    ) -> None:
        """Keep the newest `capacity` rows.

        Args:
            capacity: The number of rows.
            alpha: The exponent of priorities; 0: they don't count.
            beta: The exponent of weights, which make up for being drawn often: 1 for wholly; or its schedule over env
                steps.
            epsilon: The number that is added to errors, so that every row may be drawn again.
        """
        self.ring = Ring(capacity)
        self.alpha, self.beta, self.epsilon = alpha, schedule(beta, "beta"), epsilon
        self._sums, self._smallest = SumTree(capacity), MinTree(capacity)
        self._largest = 1.0

    def __len__(self) -> int:
        return len(self.ring)

    def add(self, batch: Batch, errors: Array | None = None) -> None:
        """Keep these rows; the oldest ones go where it is full.

        Args:
            batch: The rows.
            errors: The error of each row [N], of either sign; None: each has the largest priority so far.
        """
        places = self.ring.add(batch)
        if errors is None:
            self._set(places, np.full(len(places), self._largest**self.alpha))
        else:
            self._set(places, self._powers(errors[-len(places) :]))

    def sample(self, count: int, stream: np.random.Generator, timestep: int = 0) -> Batch:
        """Return `count` rows, one from each of as many equal parts of the sum of all priorities.

        Args:
            count: The number of rows.
            stream: The generator of random numbers that they are drawn by.
            timestep: The number of steps that all lanes of the run have made; `beta` goes by it.

        Raises:
            DataError: If it is empty.
        """
        require_rows(len(self))
        places = self._sums.find((np.arange(count) + stream.random(count)) * (self._sums.all / count))
        weights = (self._sums[places] / self._smallest.all) ** -self.beta.value(timestep)
        batch = self.ring.take(places)
        batch[Batch.WEIGHTS] = weights.astype(np.float32)
        batch[Batch.BATCH_INDEXES] = self.ring.numbers(places)
        return batch

    def update_priorities(self, places: Array, errors: Array) -> None:
        """Draw rows from now on by how large their errors are.

        Args:
            places: Their `batch_indexes` [N]. Those of rows that went meanwhile are left out: others have their places.
            errors: The errors [N], of either sign.
        """
        held = self.ring.holds(places)
        self._set(places[held] % self.ring.capacity, self._powers(errors)[held])

    def state(self) -> Mapping[str, Any]:
        """Return its rows and their priorities."""
        priorities = self._sums[np.arange(len(self))]
        return {**self.ring.state(), "priorities": priorities, "largest": self._largest}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, of a buffer of the same capacity."""
        self.ring.set_state(state)
        self._sums, self._smallest = SumTree(self.ring.capacity), MinTree(self.ring.capacity)
        self._set(np.arange(len(self)), state["priorities"])
        self._largest = float(state["largest"])

    def _powers(self, errors: Array) -> Array:
        """Return p^alpha [N] for errors [N]."""
        priorities = np.abs(np.asarray(errors, np.float64)) + self.epsilon
        self._largest = max(self._largest, float(priorities.max(initial=0.0)))
        found: Array = priorities**self.alpha
        return found

    def _set(self, places: Array, priorities: Array) -> None:
        self._sums[places] = priorities
        self._smallest[places] = priorities
