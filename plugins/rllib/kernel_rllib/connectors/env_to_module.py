"""From what environments observe to what modules take: flat rows, filtered, framed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.spaces.nested import Struct


class ObservationConnector(Protocol):
    """One step from observations to inputs. It works on the rows of all lanes at once."""

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one row that it gives, for one that it takes."""
        ...

    def __call__(self, rows: Array, ended: Array | None) -> Array:
        """Return rows [L, ...] for rows [L, ...] that follow those of the last call.

        Args:
            rows: What is observed now.
            ended: Which lanes [L] begin a new episode with these rows; None if all do.
        """
        ...

    def final(self, row: Array, position: int) -> Array:
        """Return one row for the final observation of the lane at this position. Nothing is learned or kept of it."""
        ...

    def state(self) -> Mapping[str, Array]:
        """Return all that it has learned and keeps, as arrays."""
        ...

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Go on with what `state` returned."""
        ...


class Preprocessor(Protocol):
    """Makes rows of what environments observe."""

    shape: tuple[int, ...]
    """The shape of one row."""
    dtype: np.dtype[Any]

    def rows(self, observations: Struct) -> Array:
        """Return rows [..., *shape] for observations with the same leading axes."""
        ...


class EnvToModule:
    """The observations of lanes through a preprocessor of their space, and then through connectors in order."""

    def __init__(self, preprocessor: Preprocessor, connectors: Sequence[ObservationConnector] = ()) -> None:
        """Preprocess, and pass rows through the connectors, the first one first."""
        self._preprocessor = preprocessor
        self.connectors = list(connectors)
        shape = preprocessor.shape
        for connector in self.connectors:
            shape = connector.shape(shape)
        self.shape = shape
        self.dtype = preprocessor.dtype

    def __call__(self, observations: Struct, ended: Array | None = None) -> Array:
        """Return rows [L, *shape] for what L lanes observe now; `ended` says where an episode begins."""
        rows = self._preprocessor.rows(observations)
        for connector in self.connectors:
            rows = connector(rows, ended)
        return rows

    def final(self, observation: Struct, position: int) -> Array:
        """Return the row [*shape] of the observation with which an episode ended in the lane at this position."""
        row = self._preprocessor.rows(observation)
        for connector in self.connectors:
            row = connector.final(row, position)
        return row

    def state(self) -> dict[str, dict[str, Array]]:
        """Return the states of all connectors by their places and kinds."""
        return {
            f"{place}_{type(connector).__name__}": dict(connector.state())
            for place, connector in enumerate(self.connectors)
        }

    def set_state(self, state: Mapping[str, Mapping[str, Array]]) -> None:
        """Go on with what `state` returned."""
        for place, connector in enumerate(self.connectors):
            connector.set_state(state[f"{place}_{type(connector).__name__}"])
