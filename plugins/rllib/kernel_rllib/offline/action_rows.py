"""Actions as files have them, as the environment got them, and as the rows of numbers that policies choose."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from kernel_rllib.arrays import Array
from kernel_rllib.spaces.squash import ActionScaler


class RecordedActions:
    """Turns rows of actions of one space into those of files, and back.

    A Box has its own shape and bounds in files, a Discrete its own first number. Actions of other spaces are rows there
    as they are here.
    """

    def __init__(self, space: Space[Any], *, unsquashes: bool) -> None:
        """Turn actions of a space.

        Args:
            space: The action space of the environment.
            unsquashes: Whether policies choose from -1 to 1, and that is stretched to the bounds of the space.
        """
        self._space = space
        self._scaler = ActionScaler(space) if unsquashes and isinstance(space, Box) else None
        self._first = int(space.start) if isinstance(space, Discrete) else 0

    def to_file(self, rows: Array) -> Array:
        """Return the actions [N, ...] of rows [N, ...] as the environment got them."""
        if isinstance(self._space, Box):
            shaped = rows.reshape(len(rows), *self._space.shape)
            return shaped if self._scaler is None else np.asarray(self._scaler.unsquash(shaped))
        return rows + self._first if self._first else rows

    def of_file(self, actions: Array, *, is_normalised: bool) -> Array:
        """Return the rows [N, ...] of recorded actions [N, ...].

        Args:
            actions: The actions.
            is_normalised: Whether those of boxes are from -1 to 1 already.
        """
        if isinstance(self._space, Box):
            shaped = np.asarray(actions, np.float32).reshape(len(actions), *self._space.shape)
            if self._scaler is not None and not is_normalised:
                shaped = np.asarray(self._scaler.normalise(shaped))
            return shaped.reshape(len(actions), -1)
        if isinstance(self._space, Discrete):
            return np.asarray(actions, np.int64).reshape(len(actions)) - self._first
        return np.asarray(actions)
