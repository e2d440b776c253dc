"""Environments whose task can be set while they are trained in: what a curriculum changes."""

from __future__ import annotations

from typing import Any

import gymnasium


class TaskSettableEnv(gymnasium.Env[Any, Any]):
    """An environment of several tasks, such as levels of difficulty. Define `get_task` and `set_task`."""

    def sample_tasks(self, n_tasks: int) -> list[Any]:
        """Return some tasks at random, for algorithms that learn to learn."""
        raise NotImplementedError(f"{type(self).__name__} has no sample_tasks(): define it to draw tasks at random")

    def get_task(self) -> Any:
        """Return the task that is set."""
        raise NotImplementedError(f"{type(self).__name__} has no get_task(): define it, a curriculum asks for it")

    def set_task(self, task: Any) -> None:
        """Set the task; it counts from the next episode."""
        raise NotImplementedError(f"{type(self).__name__} has no set_task(): define it, a curriculum calls it")
