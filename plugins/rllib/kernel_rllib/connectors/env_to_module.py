"""From what environments observe to what modules take: flat rows, filtered, framed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.spaces.nested import Struct


@dataclass(frozen=True)
class Previous:
    """The step that led to what is observed now, in all lanes.

    Attributes:
        actions: The chosen actions, as rows [L, ...]; see `spaces.action_rows`.
        rewards: The rewards of that step, as learners get them [L].
        resets: Whether an episode begins with what is observed now [L]: the step then belongs to the one before.
    """

    actions: Array
    rewards: Array
    resets: Array


class ObservationConnector:
    """One step from observations to inputs. It works on the rows of all lanes at once.

    A connector of one's own overrides `__call__`, and of the other methods those that don't fit it.
    """

    @classmethod
    def title(cls) -> str:
        """Return what checkpoints and messages call such a connector: by default the name of the class."""
        return cls.__name__

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one row that it gives, for one that it takes; by default the same one."""
        return shape

    @property
    def frames(self) -> int:
        """Return how many of the last observations it looks at."""
        return 1

    def dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of rows that it gives, for that of those it takes; by default the same one."""
        return dtype

    def __call__(self, rows: Array, previous: Previous | None) -> Array:
        """Return rows [L, ...] for rows [L, ...] that follow those of the last call.

        Args:
            rows: The observations of now. It may be the same array in the next call: copy what is to be kept.
            previous: The step before; None if all lanes begin an episode.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __call__(rows, previous): define it")

    def final(self, row: Array, position: int, previous: Previous) -> Array:
        """Return one row for the observation with which the episode of the lane at this position ended.

        Nothing is learned or kept of it. By default it is what `__call__` gives, for connectors that keep nothing.
        """
        found: Array = self(row[None], None)[0]
        return found

    def take_learned(self, kept: Array | None) -> Moments | None:
        """Return the moments of what lanes observed since this was last asked; None where nothing is learned.

        Args:
            kept: The number of observations of each lane that count, the first ones [L]; None for all.
        """
        return None

    def forget_observed(self) -> None:
        """Let nothing have been observed since `take_learned` was last called."""

    def set_statistics(self, statistics: Moments) -> None:
        """Work with what all lanes of all runners have learned together."""

    def lane_state(self, position: int) -> dict[str, Array]:
        """Return what it keeps of the lane at this position, as arrays."""
        return {}

    def set_lane_state(self, position: int, state: Mapping[str, Array]) -> None:
        """Go on in the lane at this position with what `lane_state` returned."""


class BatchPreprocessor(Protocol):
    """Makes rows of what environments observe."""

    shape: tuple[int, ...]
    """The shape of one row."""
    dtype: np.dtype[Any]

    def rows(self, observations: Struct) -> Array:
        """Return rows [..., *shape] for observations with the same leading axes."""
        ...


class EnvToModule:
    """The observations of lanes through a preprocessor of their space, and then through connectors in order."""

    def __init__(self, preprocessor: BatchPreprocessor, connectors: Sequence[ObservationConnector] = ()) -> None:
        """Preprocess, and pass rows through the connectors, the first one first."""
        self.preprocessor = preprocessor
        self.connectors = list(connectors)
        self._named = {f"{place}_{made.title()}": made for place, made in enumerate(self.connectors)}
        shape, dtype = preprocessor.shape, preprocessor.dtype
        for connector in self.connectors:
            shape, dtype = connector.shape(shape), connector.dtype(dtype)
        self.shape, self.dtype = shape, dtype
        self.frames = max((connector.frames for connector in self.connectors), default=1)
        """The number of the latest observations that the connectors read."""

    def __call__(self, observations: Struct, previous: Previous | None = None) -> Array:
        """Return rows [L, *shape] for what L lanes observe now, after the step `previous`."""
        rows = self.preprocessor.rows(observations)
        for connector in self.connectors:
            rows = connector(rows, previous)
        return rows

    def final(self, observation: Struct, position: int, previous: Previous) -> Array:
        """Return the row [*shape] of the observation with which an episode ended in the lane at this position."""
        row = self.preprocessor.rows(observation)
        for connector in self.connectors:
            row = connector.final(row, position, previous)
        return row

    def take_learned(self, kept: Array | None = None) -> dict[str, Moments]:
        """Return what connectors learned of each lane since this was last asked, by their names.

        Args:
            kept: The number of observations of each lane that count, the first ones [L]; None for all.
        """
        learned = {name: connector.take_learned(kept) for name, connector in self._named.items()}
        return {name: moments for name, moments in learned.items() if moments is not None}

    def forget_observed(self) -> None:
        """Let connectors have observed nothing since `take_learned` was last called."""
        for connector in self.connectors:
            connector.forget_observed()

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let connectors work with what all lanes of all runners have learned together, by their names."""
        for name, connector in self._named.items():
            if name in statistics:
                connector.set_statistics(statistics[name])

    def lane_state(self, position: int) -> dict[str, dict[str, Array]]:
        """Return what connectors keep of the lane at this position, by their names."""
        kept = {name: connector.lane_state(position) for name, connector in self._named.items()}
        return {name: state for name, state in kept.items() if state}

    def set_lane_state(self, position: int, state: Mapping[str, Mapping[str, Array]]) -> None:
        """Go on in the lane at this position with what `lane_state` returned."""
        for name, kept in state.items():
            self._named[name].set_lane_state(position, kept)
