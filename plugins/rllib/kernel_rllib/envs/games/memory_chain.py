"""A bit is shown at the beginning, and asked for at the end: how far a memory reaches.

Osband et al. 2019, "Behaviour suite for reinforcement learning", `memory_len`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.spaces.nested import Array


class MemoryChainGame(Game):
    """A corridor of `memory_length` (20) steps. Seen are the share of time that is left, the bit (-1 or 1, in the first
    step only), and whether it is asked for. The last action is worth 1 if it is the bit, and -1 if not.
    """

    defaults = {"memory_length": 20}  # noqa: RUF012
    arrays = ("bit", "steps")
    bit: Array
    """int64 [lanes]: 0 or 1."""
    steps: Array
    """int64 [lanes]."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._length = int(self.settings["memory_length"])
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(2)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.bit = np.zeros(lanes, np.int64)
        self.steps = np.zeros(lanes, np.int64)

    def begin(self, lane: int, generator: Generator) -> None:
        """Draw a bit."""
        self.bit[lane] = generator.integers(2)
        self.steps[lane] = 0

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Go on; the action counts in the last step only."""
        self.steps += 1
        terminateds = self.steps >= self._length
        return np.where(terminateds, np.where(actions == self.bit, 1.0, -1.0), 0.0), terminateds

    def observe(self, lanes: Any) -> Array:
        """Return time, bit and question, float32 [lanes, 3]."""
        steps, bit = self.steps[lanes], self.bit[lanes]
        time = 1.0 - steps / self._length
        seen = [time, np.where(steps == 0, 2 * bit - 1, 0), steps == self._length - 1]
        return np.stack(seen, axis=1, dtype=np.float32, casting="unsafe")


class MemoryChain(SingleEnv):
    """One corridor."""

    game_class = MemoryChainGame
