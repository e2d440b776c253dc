"""The contract of replay, and the buffer that draws evenly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError
from kernel_rllib.replay.ring import Ring


class Replay(Protocol):
    """Keeps rows of experience, and draws minibatches of them."""

    def __len__(self) -> int:
        """Return how many rows it holds."""
        ...

    def add(self, batch: Batch, errors: Array | None = None) -> None:
        """Keep these rows; the oldest ones go where it is full.

        Args:
            batch: The rows.
            errors: The error of each row [N], of either sign, where that is known already.
        """
        ...

    def sample(self, count: int, stream: np.random.Generator, timestep: int = 0) -> Batch:
        """Return rows drawn by `stream`, with the columns `weights` and `batch_indexes` besides their own.

        Args:
            count: The number of rows.
            stream: The generator of random numbers that they are drawn by.
            timestep: The number of steps that all lanes of the run have made; schedules go by it.
        """
        ...

    def update_priorities(self, places: Array, errors: Array) -> None:
        """Say how large the errors of rows were, by their `batch_indexes`; rows that went meanwhile are left out."""
        ...

    def state(self) -> Mapping[str, Any]:
        """Return all that it holds, as arrays."""
        ...

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        ...


class UniformReplay:
    """Draws each row with the same probability, with replacement."""

    def __init__(self, capacity: int) -> None:
        """Keep the newest `capacity` rows."""
        self.ring = Ring(capacity)

    def __len__(self) -> int:
        return len(self.ring)

    def add(self, batch: Batch, errors: Array | None = None) -> None:
        """Keep these rows; the oldest ones go where it is full."""
        self.ring.add(batch)

    def sample(self, count: int, stream: np.random.Generator, timestep: int = 0) -> Batch:
        """Return `count` rows. All their weights are 1.

        Raises:
            DataError: If it is empty.
        """
        require_rows(len(self))
        places = stream.integers(0, len(self), count)
        batch = self.ring.take(places)
        batch[Batch.WEIGHTS] = np.ones(count, np.float32)
        batch[Batch.BATCH_INDEXES] = places
        return batch

    def update_priorities(self, places: Array, errors: Array) -> None:
        """Do nothing: all rows are drawn alike."""

    def state(self) -> Mapping[str, Any]:
        """Return its rows."""
        return self.ring.state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self.ring.set_state(state)


def require_rows(count: int) -> None:
    """Raise DataError if a buffer with this many rows is to be drawn from and is empty."""
    if not count:
        raise DataError(
            "the replay buffer is empty, so nothing can be drawn from it. Sample first: training begins after "
            "`num_steps_sampled_before_learning_starts` steps."
        )
