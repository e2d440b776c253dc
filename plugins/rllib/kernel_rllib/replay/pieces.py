"""Replay of episodes behind the contract of rows: so shards can keep them, and draw some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.replay.episodes import EpisodeReplay, Episodes, Piece


@dataclass
class Pieces:
    """Pieces of episodes on their way to where they are kept."""

    pieces: list[Piece]

    @property
    def count(self) -> int:
        """The number of steps of all of them."""
        return sum(piece.steps for piece in self.pieces)


class PieceReplay:
    """Keeps pieces, and draws each with the same chance, whatever errors are said."""

    def __init__(self, capacity: int) -> None:
        """Keep the newest pieces with as many steps."""
        self._kept = EpisodeReplay(capacity)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, batch: Pieces, errors: Array | None = None) -> None:
        """Keep these pieces; the oldest ones go where it is full."""
        self._kept.add(batch.pieces)

    def sample(self, count: int, stream: np.random.Generator, timestep: int = 0) -> Episodes:
        """Return pieces with `count` steps or more together. Raises DataError if it is empty."""
        return self._kept.sample(count, stream)

    def update_priorities(self, places: Array, errors: Array) -> None:
        """Do nothing: all pieces are drawn alike."""

    def state(self) -> Mapping[str, Any]:
        """Return all that it holds, as arrays."""
        return self._kept.state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self._kept.set_state(state)
