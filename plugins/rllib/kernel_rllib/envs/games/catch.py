"""A ball falls, and a paddle at the bottom is to be under it: pixels, and a reward at the end of an episode only.

Mnih et al. 2014, "Recurrent models of visual attention", section 4.2; bsuite's `catch` has the same rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array


class CatchGame(Game):
    """The board. Settings: `rows` (10) and `columns` (5) of pixels, `channels` (False: [rows, columns], True:
    [rows, columns, 1])."""

    defaults = {"rows": 10, "columns": 5, "channels": False}  # noqa: RUF012
    arrays = ("ball", "paddle")
    ball: Array
    """int64 [2, lanes]: row and column."""
    paddle: Array
    """int64 [lanes]: the column."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._rows, self._columns = int(self.settings["rows"]), int(self.settings["columns"])
        shape = (self._rows, self._columns, 1) if self.settings["channels"] else (self._rows, self._columns)
        self.observation_space = spaces.Box(0.0, 1.0, shape, np.float32)
        self.action_space = spaces.Discrete(3)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.ball = np.zeros((2, lanes), np.int64)
        self.paddle = np.zeros(lanes, np.int64)

    def begin(self, lane: int, generator: Generator) -> None:
        """Let a ball fall from somewhere in the first row, and put the paddle in the middle."""
        self.ball[:, lane] = 0, generator.integers(self._columns)
        self.paddle[lane] = self._columns // 2

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Move the paddle: 0 to the left, 1 not at all, 2 to the right. The ball falls by one row."""
        np.clip(self.paddle + actions - 1, 0, self._columns - 1, out=self.paddle)
        self.ball[0] += 1
        terminateds = self.ball[0] == self._rows - 1
        return np.where(terminateds, np.where(self.paddle == self.ball[1], 1.0, -1.0), 0.0), terminateds

    def observe(self, lanes: Any) -> Array:
        """Return the pixels: 1 where the ball and the paddle are, float32."""
        row, column = self.ball[:, lanes]
        paddle = self.paddle[lanes]
        board = np.zeros((len(paddle), self._rows, self._columns), np.float32)
        index = np.arange(len(paddle))
        board[index, row, column] = 1.0
        board[index, self._rows - 1, paddle] = 1.0
        return board[..., None] if self.settings["channels"] else board


class Catch(SingleEnv):
    """One board."""

    game_class = CatchGame
