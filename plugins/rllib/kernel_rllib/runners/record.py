"""The arrays of a fragment while they are filled, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.envs.contract import Step


class Record:
    """The arrays of a fragment while they are filled."""

    def __init__(
        self, steps: int, obs: Array, keeps: Sequence[str], state: Mapping[str, Array], told: Sequence[str] = ()
    ) -> None:
        count = len(obs)
        self.steps = steps
        self.columns: dict[str, Array] = {
            columns.OBS: np.empty((steps, *obs.shape), obs.dtype),
            columns.REWARDS: np.empty((steps, count), np.float32),
            columns.TERMINATEDS: np.empty((steps, count), bool),
            columns.TRUNCATEDS: np.empty((steps, count), bool),
        }
        self.state_in = {name: np.empty((steps, count, *value.shape[1:]), np.float32) for name, value in state.items()}
        if state:
            self.columns[columns.RESETS] = np.empty((steps, count), bool)
        self.final_at: list[tuple[int, int]] = []
        self.final_obs: list[Array] = []
        self.valid: Array | None = None
        self._keeps, self._told = keeps, tuple(told)
        for name in self._told:
            self.columns[name] = np.full((steps, count), np.nan)

    def before(
        self,
        t: int,
        obs: Array,
        actions: Array,
        outputs: Mapping[str, Array],
        state: Mapping[str, Array],
        resets: Array,
    ) -> None:
        """Write what a step begins with, and what was chosen."""
        self.columns[columns.OBS][t] = obs
        self._at(columns.ACTIONS, actions)[t] = actions
        for name in self._keeps:
            self._at(name, outputs[name])[t] = outputs[name]
        for name, value in state.items():
            self.state_in[name][t] = value[: len(obs)]
        if state:
            self.columns[columns.RESETS][t] = resets

    def after(self, t: int, step: Step, rewards: Array) -> None:
        """Write what a step gave, with the rewards [L] that are learned from."""
        self.columns[columns.REWARDS][t] = rewards
        self.columns[columns.TERMINATEDS][t] = step.terminateds
        self.columns[columns.TRUNCATEDS][t] = step.truncateds
        for name in self._told:
            for position, info in step.infos.items():
                self.columns[name][t, position] = info.get(name, np.nan)
        if step.void:
            if self.valid is None:
                self.valid = np.ones((self.steps, len(step.rewards)), bool)
            self.valid[t, list(step.void)] = False

    def end(self, t: int, position: int, final_obs: Array) -> None:
        """Write the final observation of an episode."""
        self.final_at.append((t, position))
        self.final_obs.append(final_obs)

    def _at(self, name: str, value: Array) -> Array:
        if name not in self.columns:
            self.columns[name] = np.empty((self.steps, *value.shape), value.dtype)
        return self.columns[name]
