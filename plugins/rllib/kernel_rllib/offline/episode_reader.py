"""Reads recorded episodes in any order, from collections that give each of them by its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError
from kernel_rllib.offline.input_reader import InputReader
from kernel_rllib.offline.io_context import IOContext


class EpisodeCollection(Protocol):
    """Holds recorded episodes, such as those of one file. None is in memory before it is asked for."""

    name: str
    """The path or address of the collection, for messages."""

    def __len__(self) -> int:
        """Return the number of episodes."""

    def episode(self, number: int) -> Batch:
        """Return the steps of an episode, given its number from 0 on."""

    def close(self) -> None:
        """Let go of files."""


class EpisodeReader(InputReader):
    """Returns each episode of some collections once, in a random order, then all of them again, without end."""

    def __init__(self, collections: Sequence[EpisodeCollection], ioctx: IOContext | None = None) -> None:
        """Read from collections.

        Args:
            collections: The collections that hold the episodes.
            ioctx: The context, whose seed orders are drawn from.

        Raises:
            DataError: If they hold no episodes.
        """
        self._collections = list(collections)
        self._places = [(where, number) for where in self._collections for number in range(len(where))]
        if not self._places:
            raise DataError(
                f"there is no episode in {', '.join(each.name for each in self._collections)}: record some steps"
            )
        self._stream = np.random.default_rng(None if ioctx is None else ioctx.seed)
        self._waiting: list[int] = []

    def next(self) -> Batch:
        """Return one episode. Raises DataError if what was recorded of it does not fit together."""
        while True:
            if not self._waiting:
                self._waiting = self._stream.permutation(len(self._places)).tolist()
            where, number = self._places[self._waiting.pop()]
            episode = where.episode(number)
            if episode.count:
                return episode

    def state(self) -> dict[str, Any]:
        """Return which episodes are still to come in this round, and where draws are."""
        return {"waiting": list(self._waiting), "draws": self._stream.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, in the same files."""
        self._waiting = [int(number) for number in state["waiting"]]
        self._stream.bit_generator.state = state["draws"]

    def close(self) -> None:
        """Let go of files."""
        for each in self._collections:
            each.close()
