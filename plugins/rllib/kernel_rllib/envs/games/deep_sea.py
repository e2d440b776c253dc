"""A dive to a treasure that only one sequence of actions finds: what random exploration needs 2^size episodes for.

Osband et al. 2019, "Behaviour suite for reinforcement learning", section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array

_MOVE_COST = 0.01


class DeepSeaGame(Game):
    """A square of water. Each step dives by one row, to the left or to the right; the treasure is at the bottom right.

    Settings: `size` (10), `mapping_seed` (None: action 1 is right everywhere; a number: which action is right differs
    from cell to cell, as this seed says).
    """

    defaults = {"size": 10, "mapping_seed": None}  # noqa: RUF012
    arrays = ("cell",)
    cell: Array
    """int64 [2, lanes]: row and column."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._size = size = int(self.settings["size"])
        seed = self.settings["mapping_seed"]
        cells = (size, size)
        self._right = np.ones(cells, np.int64) if seed is None else np.random.default_rng(seed).integers(0, 2, cells)
        self.observation_space = spaces.Box(0.0, 1.0, cells, np.float32)
        self.action_space = spaces.Discrete(2)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.cell = np.zeros((2, lanes), np.int64)

    def begin(self, lane: int, generator: Generator) -> None:
        """Begin at the top left."""
        self.cell[:, lane] = 0

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Dive: a step to the right costs 0.01 / size, and the treasure is worth 1."""
        row, column = self.cell
        right = actions == self._right[row, column]
        found = right & (row == self._size - 1) & (column == self._size - 1)
        rewards = np.where(right, -_MOVE_COST / self._size, 0.0) + found
        np.clip(column + np.where(right, 1, -1), 0, self._size - 1, out=column)
        row += 1
        return rewards, row == self._size

    def observe(self, lanes: Any) -> Array:
        """Return where the diver is, one-hot [lanes, size, size]; nothing after the last row."""
        row, column = self.cell[:, lanes]
        seen = np.zeros((len(row), self._size, self._size), np.float32)
        under = row < self._size
        seen[under.nonzero()[0], row[under], column[under]] = 1.0
        return seen


class DeepSea(SingleEnv):
    """One dive."""

    game_class = DeepSeaGame
