"""The last observations of an episode as one: for environments that show no speeds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import ObservationConnector, Previous
from kernel_rllib.errors import ConfigError


class FrameStack(ObservationConnector):
    """Puts the last frames of a lane beside one another, the oldest first, along the last axis of rows.

    Flat rows [F] become [frames * F], pictures [height, width, channels] become [height, width, frames * channels].
    An episode begins with its first frame in all places, so no frame of the episode before is ever seen.
    """

    def __init__(self, frames: int) -> None:
        """Show this many frames. Raises ConfigError for fewer than one."""
        if not isinstance(frames, int) or frames < 1:
            raise ConfigError(f"{frames!r} frames can't be stacked: give a whole number from 1 on")
        self._frames = frames
        self._stack = np.zeros((0, 0))

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape with the last axis as many times as long."""
        return (*shape[:-1], shape[-1] * self._frames)

    @property
    def frames(self) -> int:
        """Return how many frames it shows."""
        return self._frames

    def __call__(self, rows: Array, previous: Previous | None) -> Array:
        """Return the last frames of each lane."""
        if previous is None:
            self._stack = self._begun(rows)
            return self._stack
        self._stack = self._followed(self._stack, rows)
        begun = previous.resets
        if begun.any():
            self._stack[begun] = self._begun(rows[begun])
        return self._stack

    def final(self, row: Array, position: int, previous: Previous) -> Array:
        """Return the last frames of the episode that ended, with this one as the last."""
        return self._followed(self._stack[position], row)

    def lane_state(self, position: int) -> dict[str, Array]:
        """Return the frames of the lane."""
        return {"frames": self._stack[position].copy()}

    def set_lane_state(self, position: int, state: Mapping[str, Array]) -> None:
        """Go on with these frames."""
        self._stack[position] = state["frames"]

    def _begun(self, rows: Array) -> Array:
        return np.concatenate([rows] * self._frames, axis=-1)

    def _followed(self, stack: Array, rows: Array) -> Array:
        return np.concatenate([stack[..., rows.shape[-1] :], rows], axis=-1)
