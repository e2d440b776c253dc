"""Directions in the space of parameters, drawn from a table of noise that no process has to store.

The table is that of Salimans et al. (2017, section 2.1): many normal numbers, of which a direction is a piece. There it
lies in the memory of each machine. Here its k-th number is computed from the seed and k whenever it is read (see
`nn.philox`), so all processes have the same table, and it takes no memory however large it is.
"""

from __future__ import annotations

from kernel_rllib.arrays import Array
from kernel_rllib.errors import ConfigError
from kernel_rllib.nn import philox

_STEPS = 1 << 24
"""The number of different uniform numbers."""


class Directions:
    """The directions of a run: which they are depends on the seed, the generation and their number alone."""

    def __init__(self, seed: int, size: int, noise_size: int) -> None:
        """Draw directions.

        Args:
            seed: The seed of the run.
            size: The number of parameters.
            noise_size: The number of numbers in the table.

        Raises:
            ConfigError: If the table is shorter than one direction.
        """
        if noise_size < size:
            raise ConfigError(
                f"noise_size={noise_size} numbers are fewer than the policy's {size} parameters: a direction is a "
                "piece of the table, so make noise_size larger, or the model smaller"
            )
        self._seed, self._size, self._places = seed, size, noise_size - size + 1

    def direction(self, generation: int, index: int) -> Array:
        """Return the direction with this number in a generation: standard normal, float32 [size]."""
        high, low = philox.uniforms(self._seed, generation, "directions", index, 1, 2)[0].astype(float).tolist()
        place = (int(high * _STEPS) * _STEPS + int(low * _STEPS)) % self._places
        return philox.normals(self._seed, 0, "table of noise", place, self._size, 1)[:, 0]

    def is_also_undisturbed(self, generation: int, index: int, probability: float) -> bool:
        """Return whether an undisturbed episode is played beside those along a direction, as often as is given."""
        drawn = philox.uniforms(self._seed, generation, "undisturbed", index, 1, 1)[0, 0]
        return bool(drawn < probability)
