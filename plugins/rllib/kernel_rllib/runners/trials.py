"""Trials: whole episodes, each by parameters of its own, that lanes play one after another.

A trial depends on the seed, its generation, its number and its side alone: not on the lane that plays it, nor on the
process. So it can be played again anywhere, with the same bits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Moments, Statistics
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.envs.contract import Step
from kernel_rllib.errors import EnvError
from kernel_rllib.exploration.directions import Directions
from kernel_rllib.modules.module import Module
from kernel_rllib.nn import philox
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.spaces import nested

AHEAD = 64
"""For how many steps the noise of a lane's actions is drawn at once."""
MOST_FAULTS = 3
"""The number of times that a trial is begun anew because its environment failed."""


@dataclass(frozen=True, order=True)
class Trial:
    """One episode to be played.

    Attributes:
        index: The number of its direction.
        side: 1 along the direction, -1 against it, 0 by the parameters as they are.
    """

    index: int
    side: int


@dataclass
class Outcomes:
    """The outcomes of trials, arrays [N, ...], one row a trial.

    Attributes:
        index: The numbers of their directions.
        side: Their sides.
        returns: The sums of their rewards, float64.
        lengths: The numbers of their steps.
        count, mean, squares: The moments of what was observed; see `connectors.moments`.
    """

    index: Array
    side: Array
    returns: Array
    lengths: Array
    count: Array
    mean: Array
    squares: Array

    @classmethod
    def joined(cls, parts: Iterable[Outcomes]) -> Outcomes:
        """Return all of several, in the order of directions and sides."""
        parts = list(parts)
        whole = {one.name: np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)}
        order = np.lexsort((whole["side"], whole["index"]))
        return cls(**{name: column[order] for name, column in whole.items()})

    @property
    def moments(self) -> Moments:
        """Return the moments of what was observed, with an axis for trials."""
        return Moments(self.count, self.mean, self.squares)


@dataclass(frozen=True)
class TrialSettings:
    """The settings of trials.

    Attributes:
        blueprint: The blueprint of the environments, and of the connectors between them and the policy.
        distribution: The distribution whose mode, by the policy's outputs, is the action.
        noise_stdev: The distance by which parameters are moved along a direction.
        action_noise_std: The deviation of what is added to continuous actions of disturbed episodes.
        offset: The number that is subtracted from each reward of disturbed episodes.
        noise_size: The size of the table of noise.
    """

    blueprint: Blueprint
    distribution: Distribution
    noise_stdev: float
    action_noise_std: float = 0.0
    offset: float = 0.0
    noise_size: int = 250_000_000


class TrialPlayer:
    """The lanes of one process, which play trials."""

    def __init__(self, settings: TrialSettings, place: RunnerPlace) -> None:
        """Make the environments of a place."""
        self._settings, blueprint = settings, settings.blueprint
        self._module: Module = blueprint.module
        self._seed = blueprint.seed
        self._directions = Directions(self._seed, self._module.table.size, settings.noise_size)
        self._env_to_module = blueprint.make_env_to_module(learns=False)
        self._module_to_env = blueprint.make_module_to_env()
        self._envs = blueprint.make_envs(place)
        self._lanes = len(place.lanes)
        self._nn = NumpyOps()
        self._vectors = np.zeros((self._lanes, self._module.table.size), np.float32)
        self._parameters = {
            name: self._vectors[:, entry.place].reshape(self._lanes, *entry.shape)
            for name, entry in self._module.table.items()
        }
        self._begun = False

    def play(self, trials: Sequence[Trial], vector: Array, generation: int, statistics: Statistics) -> Outcomes:
        """Play trials, and return what they brought, in any order.

        Args:
            trials: The trials to play.
            vector: The parameters that directions start from [size].
            generation: The number of the generation.
            statistics: The statistics of the observation filter.

        Raises:
            EnvError: If an environment fails again and again.
        """
        self._env_to_module.set_statistics(statistics)
        if not self._begun:
            self._envs.reset([0] * self._lanes)  # each trial has a seed of its own
            self._begun = True
        return _Round(self, deque(trials), vector, generation).outcomes()

    def close(self) -> None:
        """Let go of the environments."""
        self._envs.close()


class _Round:
    """Trials of one generation, while they are played."""

    def __init__(self, player: TrialPlayer, waiting: deque[Trial], vector: Array, generation: int) -> None:
        self._player, self._waiting, self._vector, self._generation = player, waiting, vector, generation
        lanes, shape = player._lanes, player._env_to_module.preprocessor.shape
        self._trials: list[Trial | None] = [None] * lanes
        self._faults = np.zeros(lanes, np.int64)
        self._returns, self._lengths = np.zeros(lanes), np.zeros(lanes, np.int64)
        self._offsets = np.zeros(lanes)
        self._count, self._mean, self._squares = np.zeros(lanes), np.zeros((lanes, *shape)), np.zeros((lanes, *shape))
        self._noise = np.zeros((lanes, AHEAD, player._settings.distribution.action_size), np.float32)
        self._noisy = player._settings.action_noise_std > 0 and not player._settings.distribution.discrete
        self._found: list[tuple[Any, ...]] = []

    def outcomes(self) -> Outcomes:
        player = self._player
        obs: Any = None
        for lane in range(player._lanes):
            first = self._begin_next(lane)
            if obs is None:
                obs = nested.empty(player._envs.observation_space, player._lanes)
            if first is not None:
                nested.write_row(obs, lane, first)
        while any(trial is not None for trial in self._trials):
            self._count_observed(obs)
            step = player._envs.step(player._module_to_env(self._actions(obs)))
            obs = self._advance(step)
        return self._as_outcomes()

    def _actions(self, obs: Any) -> Array:
        """Return the actions [L, ...] of all lanes, each by its own parameters."""
        player, settings = self._player, self._player._settings
        rows = player._env_to_module(obs)
        outputs = player._module.infer(player._nn, player._parameters, {columns.OBS: rows[:, None]})
        chosen: Array = settings.distribution.mode(player._nn, outputs[columns.ACTION_DIST_INPUTS][:, 0])
        if self._noisy:
            ahead = self._lengths % AHEAD
            for lane in np.flatnonzero(ahead == 0).tolist():
                self._draw_noise(lane)
            chosen = chosen + self._noise[np.arange(player._lanes), ahead]
        return chosen

    def _draw_noise(self, lane: int) -> None:
        """Draw what is added to the next actions of a lane; it is nothing in undisturbed episodes."""
        trial = self._trials[lane]
        if trial is None or not trial.side:
            self._noise[lane] = 0
            return
        purpose, width = f"actions {trial.side} of generation {self._generation}", self._noise.shape[2]
        start = int(self._lengths[lane])
        drawn = philox.normals(self._player._seed, trial.index, purpose, start, AHEAD, width)
        self._noise[lane] = drawn * np.float32(self._player._settings.action_noise_std)

    def _count_observed(self, obs: Any) -> None:
        """Count what all lanes observe (Welford 1962): those without a trial are not asked afterwards."""
        rows = self._player._env_to_module.preprocessor.rows(obs)
        self._count += 1
        apart = rows - self._mean
        self._mean += apart / self._count.reshape(-1, *(1,) * (rows.ndim - 1))
        apart *= rows - self._mean
        self._squares += apart

    def _advance(self, step: Step) -> Any:
        """Take in what a step gave, and let lanes whose episode ended begin the next trial; return what is observed."""
        self._returns += step.rewards - self._offsets
        self._lengths += 1
        for lane in step.void:
            self._lengths[lane] -= 1
            self._returns[lane] -= step.rewards[lane] - self._offsets[lane]
        if not step.final_obs:
            return step.obs
        obs = nested.copy(step.obs)
        for lane in sorted(step.final_obs):
            if self._trials[lane] is None:
                continue
            if lane in step.faults:
                first = self._begin_again(lane, step.faults[lane])
            else:
                self._end(lane)
                first = self._begin_next(lane)
            if first is not None:
                nested.write_row(obs, lane, first)
        return obs

    def _end(self, lane: int) -> None:
        trial = self._trials[lane]
        assert trial is not None
        kept = self._count[lane], self._mean[lane].copy(), self._squares[lane].copy()
        self._found.append((trial.index, trial.side, self._returns[lane], self._lengths[lane], *kept))

    def _begin_next(self, lane: int) -> Any:
        """Give the lane the next trial, and return its first observation; None where none waits."""
        self._trials[lane] = self._waiting.popleft() if self._waiting else None
        self._faults[lane] = 0
        trial = self._trials[lane]
        if trial is None:
            return None
        player, settings = self._player, self._player._settings
        player._vectors[lane] = self._vector
        if trial.side:
            direction = player._directions.direction(self._generation, trial.index)
            player._vectors[lane] += np.float32(trial.side * settings.noise_stdev) * direction
        return self._begin(lane, trial)

    def _begin_again(self, lane: int, fault: Exception) -> Any:
        trial = self._trials[lane]
        assert trial is not None
        self._faults[lane] += 1
        if self._faults[lane] > MOST_FAULTS:
            raise EnvError(
                f"the environment failed {int(self._faults[lane])} times in the same episode (direction {trial.index} "
                f"of generation {self._generation}), the last time with {fault!r}: mend it, or end the episode there"
            ) from fault
        return self._begin(lane, trial)

    def _begin(self, lane: int, trial: Trial) -> Any:
        self._returns[lane], self._lengths[lane] = 0, 0
        self._count[lane], self._mean[lane], self._squares[lane] = 0, 0, 0
        self._offsets[lane] = self._player._settings.offset if trial.side else 0
        # Both sides of a direction play the same episode: their returns differ only by their actions.
        occasion = (self._player._seed, self._generation, trial.index, int(trial.side == 0))
        seed = int(np.random.SeedSequence(occasion).generate_state(1)[0])
        return self._player._envs.reset_lane(lane, seed)

    def _as_outcomes(self) -> Outcomes:
        shape = self._mean.shape[1:]
        if not self._found:
            none = np.zeros(0)
            return Outcomes(none, none, none, none, none, np.zeros((0, *shape)), np.zeros((0, *shape)))
        index, side, returns, lengths, count, mean, squares = zip(*self._found, strict=True)
        return Outcomes(
            np.array(index, np.int64),
            np.array(side, np.int64),
            np.array(returns),
            np.array(lengths, np.int64),
            np.array(count),
            np.stack(mean),
            np.stack(squares),
        )
