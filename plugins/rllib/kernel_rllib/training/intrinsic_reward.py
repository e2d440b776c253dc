"""Rewards for what is new, which the learner adds to those of the environment: what such explorations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, concatenated
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.learners.learner import Learner, Metrics
from kernel_rllib.training.results import mean_metrics

Streams: TypeAlias = "Callable[..., np.random.Generator]"
"""Returns a generator of random numbers for a purpose."""


class IntrinsicReward(ABC):
    """Adds intrinsic rewards to fragments, and learns from them afterwards what is not new any more."""

    def __init__(self, learner: Learner, stream: Streams, minibatch_size: int) -> None:
        """Learn with this learner.

        Args:
            learner: The learner of the networks whose errors are the rewards.
            stream: The function that returns a generator of random numbers for a purpose; steps are shuffled by one.
            minibatch_size: The largest number of steps that it learns from at once.
        """
        self.learner = learner
        self._stream, self._size = stream, minibatch_size

    @abstractmethod
    def rewards_of(self, fragment: Fragment, following: Array) -> Array:
        """Return the intrinsic rewards [T, L] of a fragment's steps.

        Args:
            fragment: The steps.
            following: The observation after each step [T, L, ...].
        """

    @abstractmethod
    def give(self, fragment: Fragment, rewards: Array) -> dict[str, Array]:
        """Let a fragment have intrinsic rewards [T, L]; return further columns [T, L, ...] that the networks need."""

    def inputs_of(self, columns_of_steps: dict[str, Array]) -> dict[str, Array]:
        """Return the columns [T, L, ...] of steps as the networks take them; by default the same."""
        return columns_of_steps

    def add_to(self, fragments: Sequence[Fragment], timestep: int) -> Metrics:
        """Give fragments intrinsic rewards, learn from their steps, and return what is reported.

        Args:
            fragments: The sampled steps; their columns are replaced, and no array is changed.
            timestep: The number of steps that the environments have made; schedules go by it.
        """
        rows, given, steps = [], 0.0, 0
        for fragment in fragments:
            following = fragment.next_obs()
            rewards = self.rewards_of(fragment, following)
            if fragment.valid is not None:
                rewards = np.where(fragment.valid, rewards, np.float32(0))
            given, steps = given + float(rewards.sum(dtype=np.float64)), steps + fragment.steps
            found = {name: fragment.columns[name] for name in (columns.OBS, columns.ACTIONS)}
            found = self.inputs_of({**found, columns.NEXT_OBS: following}) | self.give(fragment, rewards)
            rows.append(_rows(found, fragment.valid))
        batch = concatenated(rows)
        assert isinstance(batch, Batch)
        told: Metrics = {"intrinsic_reward_mean": given / max(steps, 1)}
        return {**told, **self._learn(batch, timestep)} if batch.count else told

    def _learn(self, batch: Batch, timestep: int) -> Metrics:
        stream = self._stream("intrinsic_reward", self.learner.version)
        parts = batch.minibatches(min(self._size, batch.count), stream, epochs=1, shuffle=True)
        return mean_metrics([self.learner.update(part, timestep) for part in parts])

    def state(self) -> dict[str, Any]:
        """Return what it has to keep, as `checkpoints.tree` takes it."""
        return {"learner": self.learner.state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on with what `state` returned."""
        self.learner.set_state(state["learner"])


def flat(column: Array) -> Array:
    """Return a column [T, L, ...] as rows [T L, ...]."""
    return column.reshape(-1, *column.shape[2:])


def _rows(found: dict[str, Array], valid: Array | None) -> Batch:
    rows = {name: flat(column) for name, column in found.items()}
    if valid is None:
        return Batch(rows)
    made = np.flatnonzero(valid.ravel())
    return Batch({name: column[made] for name, column in rows.items()})
