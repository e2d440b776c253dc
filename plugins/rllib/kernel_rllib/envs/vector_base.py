"""Vector environments as users wrote them for the first generation: lists of observations, reset one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.envs.contract import Step
from kernel_rllib.envs.lanes import EndlessWatch, checked_seeds
from kernel_rllib.envs.old_gym import TRUNCATED_KEY
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.nested import Struct, has_nan


class VectorEnvBase:
    """Derive from it to step several environments in one call: `ray.rllib.env.VectorEnv` of the first generation.

    Define `vector_reset() -> observations` (or observations and infos), `reset_at(index) -> observation` (or
    observation and info), and `vector_step(actions) -> (observations, rewards, dones, infos)` (or terminateds and
    truncateds in place of dones), all lists with an item for each environment.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    num_envs: int

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], num_envs: int) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.num_envs = num_envs

    def vector_reset(self) -> Any:
        """Begin an episode in each environment."""
        raise NotImplementedError(f"{type(self).__name__} has no vector_reset(): define it")

    def reset_at(self, index: int) -> Any:
        """Begin an episode in one environment."""
        raise NotImplementedError(f"{type(self).__name__} has no reset_at(index): define it")

    def vector_step(self, actions: list[Any]) -> Any:
        """Do one action in each environment."""
        raise NotImplementedError(f"{type(self).__name__} has no vector_step(actions): define it")

    def get_unwrapped(self) -> list[Any]:
        """Return the environments, if there are such objects."""
        return []

    def get_sub_environments(self) -> list[Any]:
        """Return the same as `get_unwrapped`."""
        return self.get_unwrapped()


class UserVector:
    """Lanes of a `VectorEnvBase`; see `contract.VectorEnv`. Its lanes are seeded only as far as it does that itself."""

    independent_lanes = False

    def __init__(self, env: VectorEnvBase) -> None:
        self._env = env
        self.name = type(env).__name__
        for attribute in ("observation_space", "action_space", "num_envs"):
            if getattr(env, attribute, None) is None:
                raise EnvError(f"{self.name} has no {attribute}: a vector environment has to set it")
        self.num_lanes = int(env.num_envs)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.reset_infos: dict[int, dict[str, Any]] = {}
        self._encoder = Encoder(self.observation_space, self.name)
        self._watch = EndlessWatch(self.name, self.num_lanes)

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...]."""
        checked_seeds(seeds, self.num_lanes)
        returned = self._env.vector_reset()
        with_infos = isinstance(returned, tuple) and len(returned) == 2
        obs, infos = returned if with_infos else (returned, [{}] * self.num_lanes)
        self._check_length("vector_reset", obs)
        self.reset_infos = {lane: info for lane, info in enumerate(infos) if info}
        return self._encoder.batch(list(obs), "vector_reset")

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        returned = self._env.vector_step(nested.unstack(self.action_space, nested.copy(actions)))
        if not isinstance(returned, tuple) or len(returned) not in (4, 5):
            raise EnvError(
                f"{self.name}.vector_step() returned {returned!r}: return (observations, rewards, terminateds, "
                "truncateds, infos), or (observations, rewards, dones, infos) as before"
            )
        self._check_length("vector_step", *returned)
        values, rewards, *flags, infos = returned
        obs = self._encoder.batch(list(values), "vector_step")
        if len(flags) == 2:
            terminateds, truncateds = (np.array(flag, bool) for flag in flags)
        else:
            cut = np.array([bool(info and info.get(TRUNCATED_KEY)) for info in infos])
            dones = np.array(flags[0], bool)
            terminateds, truncateds = dones & ~cut, dones & cut
        reward_row = np.array(rewards, np.float32)
        if has_nan(reward_row) or has_nan(obs):
            raise EnvError(f"{self.name}.vector_step() returned NaN: rewards {reward_row}, observations {obs}")
        told = {lane: info for lane, info in enumerate(infos) if info}
        lanes = (terminateds | truncateds).nonzero()[0].tolist()
        if not lanes:
            self._watch.stepped()
            return Step(obs, reward_row, terminateds, truncateds, {}, told)
        self._watch.ended()
        final = {lane: nested.row(obs, lane) for lane in lanes}
        self.reset_infos = {}
        for lane in lanes:
            nested.write_row(obs, lane, self._reset_at(lane))
        return Step(obs, reward_row, terminateds, truncateds, final, told, self.reset_infos)

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation."""
        self.reset_infos = {}
        return self._reset_at(lane)

    def _reset_at(self, lane: int) -> Struct:
        returned = self._env.reset_at(lane)
        if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
            returned, info = returned
            if info:
                self.reset_infos[lane] = info
        return self._encoder.one(returned, "reset_at", lane)

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for each of its environments, or for itself where it has none."""
        return [function(env) for env in self._env.get_unwrapped() or [self._env]]

    def render(self, lane: int = 0) -> Any:
        """Return what the environment of a lane draws."""
        envs = self._env.get_unwrapped()
        if not envs:
            raise EnvError(f"{self.name} has no environments of its own (get_unwrapped), so none can be drawn")
        return envs[lane].render()

    def snapshot(self, lane: int) -> bytes:
        """Raise EnvError: a lane can't be taken out of it."""
        raise EnvError(f'the lanes of {self.name} can\'t be copied one by one: use recovery="recreate"')

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Raise EnvError: a lane can't be put into it."""
        self.snapshot(lane)

    def close(self) -> None:
        """Close it, where it can be closed."""
        if hasattr(self._env, "close"):
            self._env.close()

    def _check_length(self, method: str, *lists: Any) -> None:
        for values in lists:
            if not hasattr(values, "__len__") or len(values) != self.num_lanes:
                raise EnvError(
                    f"{self.name}.{method}() returned {values!r} where a list with an item for each of its "
                    f"{self.num_lanes} environments is expected"
                )
