"""Lanes that act in groups, each by parameters of its own: one group for each task that is adapted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.envs.contract import VectorEnv
from kernel_rllib.modules.module import Inputs, Outputs, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.sampler import Sampler


class TaskSampler(Sampler):
    """Steps lanes, of which each group acts by the parameters of its task.

    A group's rows are computed by themselves, filled up to a multiple of `Module.row_block`. Where a runner has a part
    of a group, this part is computed by itself.
    """

    def __init__(self, envs: VectorEnv, lanes: Sequence[int], *, lanes_per_task: int, **parts: Any) -> None:
        """Take what `Sampler` takes, and how many lanes in a row have the same task."""
        super().__init__(envs, lanes, **parts)
        self._of_one_task, self._forward = self._forward, self._forward_by_task
        tasks = self.lanes // lanes_per_task
        self._groups = [(int(task), np.flatnonzero(tasks == task)) for task in np.unique(tasks)]
        self._task_vectors = {task: self._vector.copy() for task, _ in self._groups}
        self._task_parameters = {task: self._module.table.views(v) for task, v in self._task_vectors.items()}

    def set_weights(self, vector: Array, version: int) -> None:
        """Act with these parameters from now on: one row for all tasks [size], or one row a task [tasks * size]."""
        rows = np.reshape(vector, (-1, len(self._vector)))
        super().set_weights(rows[0], version)
        for task, own in self._task_vectors.items():
            own[...] = rows[task if len(rows) > 1 else 0]

    def _forward_by_task(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        found = {}
        for task, positions in self._groups:
            rows = -(-len(positions) // self._module.row_block) * self._module.row_block
            part = {name: _rows(column, positions, rows) for name, column in inputs.items()}
            found[task] = self._of_one_task(nn, self._task_parameters[task], part)
        first = found[self._groups[0][0]]
        return {name: self._joined([found[task][name] for task, _ in self._groups]) for name in first}

    def _joined(self, parts: Sequence[Array]) -> Array:
        kept = [part[: len(positions)] for part, (_, positions) in zip(parts, self._groups, strict=True)]
        return np.concatenate(kept)


@dataclass(frozen=True, kw_only=True)
class TaskBlueprint(Blueprint):
    """Makes the sampler of a runner whose lanes act in groups.

    Attributes:
        lanes_per_task: The number of lanes that have the same task.
    """

    lanes_per_task: int = 1

    @classmethod
    def of(cls, blueprint: Blueprint, lanes_per_task: int) -> TaskBlueprint:
        """Return a blueprint like another, for groups of lanes."""
        parts = {part.name: getattr(blueprint, part.name) for part in fields(blueprint)}
        return cls(**{**parts, "lanes_per_task": lanes_per_task})

    def sampler(self, envs: VectorEnv, lanes: Sequence[int], **parts: Any) -> Sampler:
        """Return a sampler of these environments."""
        return TaskSampler(envs, lanes, lanes_per_task=self.lanes_per_task, **parts)


def _rows(column: Any, positions: Array, rows: int) -> Array:
    """Return the rows at these positions, and zeros below them."""
    chosen: Array = column[positions]
    if len(chosen) == rows:
        return chosen
    return np.concatenate([chosen, np.zeros((rows - len(chosen), *chosen.shape[1:]), chosen.dtype)])
