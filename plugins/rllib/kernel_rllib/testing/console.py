"""An environment with the interface of a game of Atari, without a console: for tests of what is put around games."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Console(gymnasium.Env[Any, Any]):
    """Three lives of `life` frames each; a frame earns 2, and the screen shows its number.

    Attributes:
        actions: The actions of the game that is going on.
        games: The number of games that were begun.
    """

    observation_space = Box(0, 255, (210, 160, 3), np.uint8)
    action_space = Discrete(3)

    def __init__(self, env_config: Any = None, life: int = 40) -> None:
        """Make a game whose lives last so many frames; the option `life` of `env_config` says so too."""
        self.life = int((env_config or {}).get("life", life))
        self.ale = Ale(self)
        self.left, self.frames, self.games = 0, 0, 0
        self.actions: list[int] = []

    def get_action_meanings(self) -> list[str]:
        """Return what actions mean."""
        return ["NOOP", "FIRE", "RIGHT"]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        super().reset(seed=seed)
        self.left, self.frames, self.actions = 3, 0, []
        self.games += 1
        return self.screen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Let a frame pass."""
        self.actions.append(int(action))
        self.frames += 1
        self.left = 3 - self.frames // self.life
        return self.screen(), 2.0, self.left == 0, False, {}

    def screen(self) -> Any:
        """Return what is seen."""
        return np.full((210, 160, 3), self.frames, np.uint8)


class Ale:
    """Reports the lives that are left."""

    def __init__(self, console: Console) -> None:
        """Tell of those of a game."""
        self._console = console

    def lives(self) -> int:
        """Return how many lives are left."""
        return self._console.left
