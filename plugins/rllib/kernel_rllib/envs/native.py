"""Lanes of a game in numpy, all stepped by the same few array operations: for environments that can be written so."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.utils import seeding

from kernel_rllib.envs.contract import Step
from kernel_rllib.envs.game import Game, Generator
from kernel_rllib.envs.lanes import EndlessWatch, checked_seeds
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Array, Struct


class NativeEnv:
    """Steps many lanes of one game at once; see `contract.VectorEnv`.

    game: the rules, without lanes yet. num_lanes: how many. max_episode_steps: where episodes are truncated, instead of
    what the game says.

    Each lane has a generator of its own, the same as an environment of gymnasium would have with its seed.
    """

    independent_lanes = True

    def __init__(self, game: Game, num_lanes: int, *, max_episode_steps: int | None = None) -> None:
        if num_lanes < 1:
            raise EnvError(f"a vector of environments needs one lane at least, not {num_lanes}")
        self.num_lanes = num_lanes
        self.observation_space: Space[Any] = game.observation_space
        self.action_space: Space[Any] = game.action_space
        self.reset_infos: dict[int, dict[str, Any]] = {}
        self._game = game
        game.allocate(num_lanes)
        self._name = type(game).__name__
        limit = game.max_episode_steps if max_episode_steps is None else max_episode_steps
        self._limit = np.iinfo(np.int64).max if limit is None else limit
        self._elapsed = np.zeros(num_lanes, np.int64)
        self._generators: list[Generator] = []
        self._watch = EndlessWatch(self._name, num_lanes)
        self._tells = type(game).infos is not Game.infos
        self._no_lane = np.zeros(num_lanes, bool)
        self._no_lane.setflags(write=False)

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...]."""
        checked = checked_seeds(seeds, self.num_lanes)
        previous: list[Generator | None] = [*self._generators] or [None] * self.num_lanes
        self._generators = [
            generator if seed is None and generator is not None else seeding.np_random(seed)[0]
            for seed, generator in zip(checked, previous, strict=True)
        ]
        for lane in range(self.num_lanes):
            self._game.begin(lane, self._generators[lane])
        self._elapsed[:] = 0
        self.reset_infos = self._told(range(self.num_lanes))
        return self._game.observe(slice(None))

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation."""
        self._check_begun("reset_lane")
        if seed is not None:
            self._generators[lane] = seeding.np_random(seed)[0]
        self._game.begin(lane, self._generators[lane])
        self._elapsed[lane] = 0
        self.reset_infos = self._told([lane])
        return nested.row(self._game.observe([lane]), 0)

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        self._check_begun("step")
        _check_actions(self.action_space, actions, self.num_lanes, self._name)
        self._elapsed += 1
        rewards, terminateds = self._game.advance(actions, self._generators)
        rewards = rewards.astype(np.float32, copy=False)
        truncateds = self._elapsed >= self._limit
        obs = self._game.observe(slice(None))
        infos = self._told(range(self.num_lanes))
        ended = (terminateds | truncateds).nonzero()[0]
        if not len(ended):
            self._watch.stepped()
            return Step(obs, rewards, self._no_lane, self._no_lane, {}, infos)
        self._watch.ended()
        lanes = ended.tolist()
        final_obs = {lane: nested.row(obs, lane) for lane in lanes}
        for lane in lanes:
            self._game.begin(lane, self._generators[lane])
        self._elapsed[ended] = 0
        nested.mapped(lambda array, fresh: array.__setitem__(ended, fresh), obs, self._game.observe(ended))
        return Step(obs, rewards, terminateds, truncateds, final_obs, infos, self._told(lanes))

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for the game, which is one object for all lanes."""
        return [function(self._game)]

    def render(self, lane: int = 0) -> Any:
        """Raise EnvError: games of numpy draw nothing."""
        raise EnvError(f"{self._name} draws nothing: to see episodes, evaluate with the environment of gymnasium")

    def snapshot(self, lane: int) -> bytes:
        """Return the state of a lane."""
        self._check_begun("snapshot")
        state = self._generators[lane].bit_generator.state
        return pickle.dumps((state, int(self._elapsed[lane]), self._game.save(lane)))

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Put a lane where it was when the snapshot was taken."""
        if not self._generators:
            self.reset([None] * self.num_lanes)
        state, self._elapsed[lane], saved = pickle.loads(snapshot)
        self._generators[lane].bit_generator.state = state
        self._game.load(lane, saved)

    def close(self) -> None:
        """Do nothing: there is nothing but arrays."""

    def _told(self, lanes: Sequence[int]) -> dict[int, dict[str, Any]]:
        return {lane: info for lane in lanes if (info := self._game.infos(lane))} if self._tells else {}

    def _check_begun(self, method: str) -> None:
        if not self._generators:
            raise EnvError(f"{self._name}: {method}() was called before reset()")


def _check_actions(space: Space[Any], actions: Struct, lanes: int, owner: str) -> None:
    """Raise EnvError unless there is an action of the space for each lane."""
    for leaf in nested.leaves(actions):
        if len(leaf) != lanes:
            raise EnvError(f"{owner}: step() got {len(leaf)} actions for {lanes} lanes")
    if isinstance(space, spaces.Discrete):
        index: Array = np.asarray(actions, np.int64) - int(space.start)
        if (index.view(np.uint64) >= int(space.n)).any():  # As unsigned numbers, negative ones are large.
            raise EnvError(f"{owner}: step() got the action {actions.tolist()}, but action_space is {space}")
