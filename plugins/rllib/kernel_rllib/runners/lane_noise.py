"""The noise of lanes that are not in step with one another: each has a count of its own."""

from __future__ import annotations

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.runners.noise import noise_of_lanes

AHEAD = 64
"""The number of steps of a lane that are drawn at once."""


class LaneNoise:
    """Gives the noise of any lanes, at any step of each; see `noise.noise_of_lanes`."""

    def __init__(self, noise: Noise, purpose: str, seed: int) -> None:
        """Draw this noise, for this purpose."""
        self.width = noise.width
        self._noise, self._purpose, self._seed = noise, purpose, seed
        self._drawn = np.empty((0, AHEAD, noise.width), np.float32)
        self._first = np.empty(0, np.int64)

    def rows(self, positions: Array, numbers: Array, made: Array) -> Array:
        """Return the noise [N, width] of a step of N lanes.

        Args:
            positions: The positions of the lanes in the memory of this object [N].
            numbers: The numbers of the lanes [N].
            made: The number of steps that each lane has made before [N].
        """
        if not self.width:
            return np.empty((len(positions), 0), np.float32)
        missing = int(positions.max()) + 1 - len(self._first)
        if missing > 0:
            self._drawn = np.concatenate([self._drawn, np.empty((missing, AHEAD, self.width), np.float32)])
            self._first = np.concatenate([self._first, np.full(missing, -1)])
        first = self._first[positions]
        stale = (first < 0) | (made < first) | (made >= first + AHEAD)
        if stale.any():
            drawn = noise_of_lanes(self._noise, self._purpose, self._seed, numbers[stale], made[stale], AHEAD)
            self._drawn[positions[stale]] = drawn.swapaxes(0, 1)
            self._first[positions[stale]] = made[stale]
        return self._drawn[positions, made - self._first[positions]]
