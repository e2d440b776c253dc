"""Rounds of samples in which each task acts by parameters of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data.fragment import Fragment, joined
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.making import close
from kernel_rllib.envs.old_gym import Generations
from kernel_rllib.envs.registry import EnvMaker
from kernel_rllib.errors import EnvError
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.task_sampler import TaskBlueprint
from kernel_rllib.training.curriculum import have_tasks


class TaskSource:
    """Draws tasks of an environment, by a copy of it that nobody acts in."""

    def __init__(self, maker: EnvMaker, env_config: Mapping[str, Any]) -> None:
        """Make the copy.

        Raises:
            EnvError: If the environment has no tasks.
        """
        self._name = maker.name
        self._env = maker(EnvContext(env_config))
        self._reset = Generations().reset_of(self._env)
        inside = getattr(self._env, "unwrapped", self._env)
        self._tasks = next((found for found in (self._env, inside) if _has_tasks(found)), None)
        if self._tasks is None:
            raise EnvError(
                f"environment {self._name!r} has no tasks to adapt to: derive it from TaskSettableEnv too, and define "
                "sample_tasks(n_tasks), get_task() and set_task(task); or let each of its copies have a task by "
                "itself, and set use_meta_env=False"
            )

    def draw(self, count: int, stream: np.random.Generator) -> list[Any]:
        """Return some tasks: the same ones for the same stream, where the environment draws them by `np_random`.

        Raises:
            EnvError: If these are not as many as were asked for.
        """
        self._reset(int(stream.integers(2**31)))
        assert self._tasks is not None
        found = list(self._tasks.sample_tasks(count))
        if len(found) != count:
            raise EnvError(
                f"sample_tasks({count}) of environment {self._name!r} returned {len(found)} tasks: return as many as "
                "its argument says"
            )
        return found

    def close(self) -> None:
        """Let go of the copy."""
        close(self._env)


class TaskRounds:
    """Sets tasks, and samples with parameters for each of them."""

    def __init__(self, runners: RunnerGroup, blueprint: TaskBlueprint, lanes: int) -> None:
        """Sample in these runners.

        Args:
            runners: The runners, made by the blueprint.
            blueprint: Says how many lanes have the same task.
            lanes: The number of lanes of all runners.
        """
        self.runners, self._blueprint = runners, blueprint
        self._each, self.tasks = blueprint.lanes_per_task, lanes // blueprint.lanes_per_task
        self._version = -1

    def set_tasks(self, tasks: Sequence[Any]) -> None:
        """Let the lanes of each task have it from their next episode on."""
        of_lanes = {lane: tasks[lane // self._each] for lane in range(self._each * len(tasks))}
        self._blueprint = replace(self._blueprint, envs=replace(self._blueprint.envs, tasks=of_lanes))
        self.runners.change(self._blueprint, have_tasks)

    def sample(self, vectors: Sequence[Array], steps: int) -> tuple[list[Sample], list[Fragment]]:
        """Return the samples of one round, and what each task brought.

        Args:
            vectors: The parameters of each task [size].
            steps: The least number of steps of each lane.
        """
        self._version -= 1  # Learners count upwards: no parameters of theirs have this version.
        self.runners.set_weights(np.concatenate(vectors).astype(np.float32), self._version)
        samples = self.runners.sample(lambda index: steps)
        whole = joined([sample.fragments[DEFAULT_POLICY_ID] for sample in samples])
        starts = range(0, self._each * self.tasks, self._each)
        return samples, [whole.of_lanes(start, start + self._each) for start in starts]


def _has_tasks(env: Any) -> bool:
    return all(callable(getattr(env, name, None)) for name in ("sample_tasks", "get_task", "set_task"))
