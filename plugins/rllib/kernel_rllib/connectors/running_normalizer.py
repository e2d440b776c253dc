"""Observations with a mean of 0 and a deviation of 1, element by element, by running statistics of all lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import ObservationConnector, Previous
from kernel_rllib.connectors.moments import Moments, moments_of, no_rows

LEAST_DEVIATION = 1e-8
"""An element with a smaller standard deviation is only shifted, not scaled."""


class RunningNormalizer(ObservationConnector):
    """Takes the mean off each element of an observation, and divides it by its standard deviation.

    The statistics are those of the last synchronisation: what lanes observe is collected meanwhile, and counts from the
    next one on. So rows don't depend on which lanes are in the same runner. Before the first one they stay as they are.
    """

    def __init__(self, *, learns: bool = True, synchronised: bool = True, clip: float | None = None) -> None:
        """Normalize rows.

        Args:
            learns: Whether statistics follow what is observed; not in evaluations, and not for single actions.
            synchronised: Whether all lanes share their statistics. Otherwise each lane has its own.
            clip: Beyond which value rows are cut off; None for nowhere.
        """
        self._learns, self._synchronised, self._clip = learns, synchronised, clip
        self._rows: list[Array] = []
        self._lanes = 0
        self._own: Moments | None = None
        self._mean: Array | float = 0.0
        self._scale: Array | float = 1.0

    @classmethod
    def title(cls) -> str:
        """Return the name that users know it by."""
        return "MeanStdFilter"

    @property
    def is_synchronised(self) -> bool:
        """Whether all lanes share their statistics."""
        return self._synchronised

    def dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return float32."""
        return np.dtype(np.float32)

    def __call__(self, rows: Array, previous: Previous | None) -> Array:
        """Return filtered rows, and collect those that were given."""
        if self._learns:
            if previous is None:
                self._rows, self._lanes = [], len(rows)
            self._rows.append(np.array(rows))
        return self._filtered(rows, self._mean, self._scale)

    def final(self, row: Array, position: int, previous: Previous) -> Array:
        """Return the filtered row. It is not collected, as no step follows it."""
        if self._own is None:
            return self._filtered(row, self._mean, self._scale)
        assert isinstance(self._mean, np.ndarray) and isinstance(self._scale, np.ndarray)
        return self._filtered(row, self._mean[position], self._scale[position])

    def take_learned(self, kept: Array | None) -> Moments | None:
        """Return the moments of what was collected."""
        if not self._rows:
            return None
        learned, self._rows = moments_of(np.stack(self._rows), kept), []
        if not self._synchronised:
            before = self._own or no_rows(learned.mean.shape[1:], learned.count.shape)
            self._own = before.joined(learned)
            self._use(self._own)
        return learned

    def forget_observed(self) -> None:
        """Drop what was collected."""
        self._rows = []

    def set_statistics(self, statistics: Moments) -> None:
        """Filter by these from now on, unless each lane has its own."""
        if self._synchronised or not self._learns:
            self._use(statistics)

    def lane_state(self, position: int) -> dict[str, Array]:
        """Return the statistics of the lane, where it has its own."""
        return self._own.lane(position).arrays() if self._own is not None else {}

    def set_lane_state(self, position: int, state: Mapping[str, Array]) -> None:
        """Let the lane have these statistics."""
        lane = Moments.of_arrays(state)
        if self._own is None:
            self._own = no_rows(lane.mean.shape, (self._lanes,))
        for whole, part in zip(self._own.arrays().values(), lane.arrays().values(), strict=True):
            whole[position] = part
        self._use(self._own)

    def _use(self, statistics: Moments) -> None:
        deviation = statistics.deviation()
        self._mean = statistics.mean
        self._scale = np.where(deviation < LEAST_DEVIATION, 1.0, deviation)

    def _filtered(self, rows: Array, mean: Any, scale: Any) -> Array:
        filtered = (rows - mean) / scale
        if self._clip is not None:
            filtered = np.clip(filtered, -self._clip, self._clip)
        narrowed: Array = filtered.astype(np.float32)
        return narrowed
