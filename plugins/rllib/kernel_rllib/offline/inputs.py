"""Readers that are made of readers: mixed by probabilities, and shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.offline.input_reader import InputReader


class MixedInput(InputReader):
    """Takes each batch from one of several readers, by their shares."""

    def __init__(self, readers: Sequence[InputReader], shares: Sequence[float], stream: np.random.Generator) -> None:
        """Mix these readers.

        Args:
            readers: The readers.
            shares: The relative probability that each gives the next batch; they need not add up to 1.
            stream: The generator of random numbers that choices are drawn from.
        """
        self._readers, self._stream = list(readers), stream
        self._shares = np.asarray(shares, np.float64) / np.sum(shares)

    def next(self) -> Batch | MultiAgentBatch:
        """Return a batch of one of them."""
        return self._readers[int(self._stream.choice(len(self._readers), p=self._shares))].next()

    def state(self) -> dict[str, Any]:
        """Return where all of them are, and where draws are."""
        states = {str(number): state_of(reader) for number, reader in enumerate(self._readers)}
        return {"readers": states, "draws": self._stream.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self._stream.bit_generator.state = state["draws"]
        for number, reader in enumerate(self._readers):
            set_state_of(reader, state["readers"][str(number)])

    def close(self) -> None:
        """Let all of them go."""
        for reader in self._readers:
            close_reader(reader)


class ShuffledInput(InputReader):
    """Keeps a window of batches: each that is returned is any of them, and the next one takes its place."""

    def __init__(self, reader: InputReader, size: int, stream: np.random.Generator) -> None:
        """Shuffle the batches of a reader in a window of `size` of them, by draws from a stream."""
        self._reader, self._size, self._stream = reader, size, stream
        self._window: list[Batch | MultiAgentBatch] = []

    def next(self) -> Batch | MultiAgentBatch:
        """Return a batch; the first one when the window is full."""
        while len(self._window) < self._size:
            self._window.append(self._reader.next())
        place = int(self._stream.integers(self._size))
        found, self._window[place] = self._window[place], self._reader.next()
        return found

    def state(self) -> dict[str, Any]:
        """Return where the reader and the draws are. The window is filled anew when things go on."""
        return {"reader": state_of(self._reader), "draws": self._stream.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, with a window of batches that come after those that were in it."""
        self._stream.bit_generator.state = state["draws"]
        self._window = []
        set_state_of(self._reader, state["reader"])

    def close(self) -> None:
        """Let the reader go."""
        close_reader(self._reader)


def state_of(reader: Any) -> dict[str, Any]:
    """Return the state of a reader; nothing, where it has none."""
    return dict(reader.state()) if hasattr(reader, "state") else {}


def set_state_of(reader: Any, state: Mapping[str, Any]) -> None:
    """Let a reader go on with what `state_of` returned, if it had a state."""
    if state and hasattr(reader, "set_state"):
        reader.set_state(state)


def close_reader(reader: Any) -> None:
    """Let a reader let go of its files, if it can."""
    if hasattr(reader, "close"):
        reader.close()
