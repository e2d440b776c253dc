"""A point that is to go to a goal in the plane, which it does not see: the goal is the task (Finn et al. 2017, 5.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.task import TaskSettableEnv
from kernel_rllib.spaces.nested import Array

_MOST_STEP = 0.1
_NEAR = 0.01


class PointGoal(TaskSettableEnv):
    """A point that moves in the plane. It sees where it is; the reward is the negative squared distance to the goal.

    A task is a goal, two numbers from -0.5 to 0.5. An episode begins at the origin, and ends within 0.01 of the goal,
    or after `horizon` steps (100).
    """

    def __init__(self, settings: Any = None) -> None:
        """Begin with the goal (0.5, 0.5).

        Args:
            settings: `horizon`, the number of steps after which an episode is truncated, and `radius` (0.5), the
                largest coordinate of a goal.
        """
        given = {"horizon": 100, "radius": 0.5, **(settings or {})}
        self._horizon, self._radius = int(given["horizon"]), float(given["radius"])
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-_MOST_STEP, _MOST_STEP, (2,), np.float32)
        self._goal = np.full(2, self._radius)
        self._place, self._steps = np.zeros(2), 0

    def sample_tasks(self, n_tasks: int) -> list[Array]:
        """Return goals, equally likely everywhere in the square."""
        return list(self.np_random.uniform(-self._radius, self._radius, (n_tasks, 2)))

    def get_task(self) -> Array:
        """Return the goal."""
        return self._goal

    def set_task(self, task: Any) -> None:
        """Set the goal."""
        self._goal = np.asarray(task, np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        """Put the point at the origin."""
        super().reset(seed=seed)
        self._place, self._steps = np.zeros(2), 0
        return self._place.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move the point."""
        self._steps += 1
        self._place = self._place + np.clip(action, -_MOST_STEP, _MOST_STEP)
        x, y = (self._place - self._goal).tolist()
        squared = x * x + y * y
        return self._place.astype(np.float32), -squared, squared < _NEAR**2, self._steps >= self._horizon, {}
