"""A lock with a row of digits, each of which opens the next: a task of as many levels as it has digits."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.arrays import Array
from kernel_rllib.envs.task import TaskSettableEnv

DIGITS = 15
CHOICES = 3


class CombinationLock(TaskSettableEnv):
    """The task is how many of the digits are to be found. All of them are worth that many; one wrong choice ends it.

    Settings: `digits`, the task to begin with (15); `seed`, from which the right digits are drawn (0).
    """

    def __init__(self, config: Any = None) -> None:
        """Make it."""
        given = dict(config or {})
        self.observation_space = spaces.Box(0.0, 1.0, (DIGITS + 1,), np.float32)
        self.action_space = spaces.Discrete(CHOICES)
        self._right = np.random.default_rng(given.get("seed", 0)).integers(0, CHOICES, DIGITS)
        self._task = int(given.get("digits", DIGITS))
        self._digits, self._found = self._task, 0

    def sample_tasks(self, n_tasks: int) -> list[int]:
        """Return some numbers of digits at random."""
        drawn: list[int] = self.np_random.integers(1, DIGITS + 1, n_tasks).tolist()
        return drawn

    def get_task(self) -> int:
        """Return how many digits are to be found."""
        return self._task

    def set_task(self, task: int) -> None:
        """Set how many digits are to be found, from the next episode on."""
        self._task = int(task)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        """Close the lock."""
        super().reset(seed=seed)
        self._digits, self._found = self._task, 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Try a digit."""
        is_right = int(action) == self._right[self._found]
        self._found += int(is_right)
        opened = is_right and self._found == self._digits
        return self._seen(), float(self._digits if opened else 0), bool(opened or not is_right), False, {}

    def _seen(self) -> Array:
        seen = np.zeros(DIGITS + 1, np.float32)
        seen[self._found] = 1
        return seen
