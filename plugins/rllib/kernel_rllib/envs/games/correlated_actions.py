"""Two actions of one step, of which the second should be the first: what correlated choices are for."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

STEPS = 20
"""An episode has so many steps."""


class CorrelatedActionsEnv(gymnasium.Env[Any, Any]):
    """Shows a bit. The first action is worth 5 where it is that bit, and the second where it is the first: 200 at best.

    Choices that do not know of each other are worth less as long as the first one explores.
    """

    def __init__(self, config: Any = None) -> None:
        """Make it; there are no settings."""
        self.observation_space = spaces.Discrete(2)
        self.action_space = spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2)))
        self._bit, self._made = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._made = 0
        return self._next(), {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Reward each of the two actions."""
        first, second = (int(part) for part in action)
        reward = 5.0 * (first == self._bit) + 5.0 * (second == first)
        self._made += 1
        return self._next(), reward, self._made >= STEPS, False, {}

    def _next(self) -> int:
        self._bit = int(self.np_random.integers(2))
        return self._bit
