"""The noise of lanes: the same numbers for a lane and a step, whichever runner asks, and however it cuts its steps."""

from __future__ import annotations

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.nn import philox


def noise_of_lanes(noise: Noise, purpose: str, seed: int, lanes: Array, start: Array, steps: int) -> Array:
    """Return the noise for some steps of some lanes.

    Args:
        noise: Its kind and width.
        purpose: The name of its use; each use has noise of its own.
        seed: The seed of the run.
        lanes: The numbers of the lanes among all of the run [L].
        start: The number of steps that each lane has made before [L].
        steps: The number of steps to return.

    Returns:
        float32 [steps, L, width].
    """
    drawn = np.empty((steps, len(lanes), noise.width), np.float32)
    if noise.width:
        draw = philox.normals if noise.kind == "normal" else philox.uniforms
        for position, (lane, before) in enumerate(zip(lanes.tolist(), start.tolist(), strict=True)):
            drawn[:, position] = draw(seed, lane, purpose, before, steps, noise.width)
    return drawn


class NoiseAhead:
    """The noise of lanes, drawn for many steps at once: a draw costs as much for two hundred numbers as for two."""

    def __init__(self, noise: Noise, purpose: str, seed: int, lanes: Array) -> None:
        """Draw this noise for these lanes; see `noise_of_lanes`."""
        self.width = noise.width
        self._noise, self._purpose, self._seed, self._lanes = noise, purpose, seed, lanes
        self._ahead = min(MOST_STEPS, max(1, MOST_NUMBERS // max(1, noise.width * len(lanes))))
        self._first, self._drawn = np.zeros(len(lanes), np.int64), np.empty((0, len(lanes), noise.width), np.float32)

    def rows(self, start: Array, steps: int) -> Array:
        """Return the noise of `steps` steps from `start` [L] on, float32 [steps, L, width], which is not written to."""
        ahead = start - self._first
        begin = int(ahead[0])
        if begin < 0 or begin + steps > len(self._drawn) or (ahead != begin).any():
            count = max(steps, self._ahead)
            self._drawn = noise_of_lanes(self._noise, self._purpose, self._seed, self._lanes, start, count)
            self._first, begin = start.copy(), 0
        return self._drawn[begin : begin + steps]


MOST_STEPS = 256
MOST_NUMBERS = 65_536
"""The limits of noise that is drawn ahead: so many steps, or fewer if they need more numbers."""
