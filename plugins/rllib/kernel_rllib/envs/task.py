"""Environments whose task can be set while they are trained in: what a curriculum changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.each import WithContext
from kernel_rllib.errors import EnvError


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


def settable(env: Any) -> Any:
    """Return what of an environment has tasks: itself, or what is inside of its wrappers.

    Raises:
        EnvError: If nothing has.
    """
    for found in (env, getattr(env, "unwrapped", env)):
        if callable(getattr(found, "get_task", None)) and callable(getattr(found, "set_task", None)):
            return found
    raise EnvError(
        f"env_task_fn sets tasks, and {type(getattr(env, 'unwrapped', env)).__name__} has none: derive it from "
        "TaskSettableEnv too, and define get_task() and set_task(task)"
    )


def set_tasks(envs: Any, lanes: Sequence[int], tasks: Mapping[int, Any]) -> None:
    """Set the tasks of environments, where they have one that is another.

    Args:
        envs: The environments of some lanes.
        lanes: The numbers of these lanes.
        tasks: Tasks by the numbers of lanes; those of other lanes stay.
    """
    if tasks:
        envs.foreach(
            WithContext(
                _SetTask({place: tasks[lane] for place, lane in enumerate(lanes) if lane in tasks}), EnvContext()
            )
        )


class _SetTask:
    """Sets the task of an environment, which it has by its place in the runner."""

    def __init__(self, tasks: Mapping[int, Any]) -> None:
        self._tasks = tasks

    def __call__(self, env: Any, context: EnvContext) -> None:
        found = settable(env)
        if context.vector_index in self._tasks and not is_same(found.get_task(), self._tasks[context.vector_index]):
            found.set_task(self._tasks[context.vector_index])


def is_same(task: Any, other: Any) -> bool:
    """Return whether two tasks are the same."""
    try:
        return bool(task == other)
    except ValueError:  # Arrays, and values with arrays inside.
        return bool(np.array_equal(task, other))
