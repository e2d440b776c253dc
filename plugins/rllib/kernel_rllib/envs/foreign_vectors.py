"""Vector environments of others as lanes: those of gymnasium, and EnvPool's.

They begin the next episode with the step *after* the one that ended, whose row is no transition then. Here a lane's
next episode begins in the same step: where the vector can reset some lanes alone, that is done; where it can't, the row
of the reset is reported in `Step.void`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from kernel_rllib.envs.contract import Step
from kernel_rllib.envs.lanes import EndlessWatch, checked_seeds
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Array, Struct, has_nan

_log = logging.getLogger("kernel.rllib")
Infos = dict[int, dict[str, Any]]


class GymnasiumVector:
    """Lanes of a `gymnasium.vector.VectorEnv` in any of its three ways to reset; see `contract.VectorEnv`.

    check_numbers: whether NaN in observations and rewards raises EnvError.
    """

    def __init__(self, env: Any, *, check_numbers: bool = True) -> None:
        self._env = env
        self.name = type(env.unwrapped).__name__
        self.num_lanes = int(env.num_envs)
        self.observation_space: Space[Any] = env.single_observation_space
        self.action_space: Space[Any] = env.single_action_space
        self.reset_infos: Infos = {}
        self._check_numbers = check_numbers
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        sub_envs = isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        self._can_mask = sub_envs or self._mode is AutoresetMode.DISABLED
        """Others take `reset_mask` for an unknown option, and reset all lanes."""
        self.independent_lanes = sub_envs
        self._over = np.zeros(self.num_lanes, bool)
        """Lanes whose next row is a reset."""
        self._watch = EndlessWatch(self.name, self.num_lanes)
        if nested.has_objects(nested.empty(self.observation_space, 1)):
            raise EnvError(f"{self.name}: observations of {self.observation_space} can't be stepped as a vector")

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...].

        A vector whose lanes share one generator takes the first seed.
        """
        checked = checked_seeds(seeds, self.num_lanes)
        obs, infos = self._env.reset(seed=checked if self.independent_lanes else checked[0])
        self.reset_infos = infos_by_lane(infos, self.num_lanes)
        self._over[:] = False
        return self._checked(obs, "reset")

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        void = tuple(self._over.nonzero()[0].tolist())
        obs, rewards, terminateds, truncateds, infos = self._env.step(actions)
        rewards = np.array(rewards, np.float32)
        obs = self._checked(obs, "step")
        if self._check_numbers and has_nan(rewards):
            raise EnvError(f"{self.name}.step() returned NaN as reward: {rewards}")
        terminateds, truncateds = np.array(terminateds, bool), np.array(truncateds, bool)
        ended = terminateds | truncateds
        lanes = ended.nonzero()[0].tolist()
        if not lanes:
            self._watch.stepped()
            self._over[:] = False
            told = infos_by_lane(infos, self.num_lanes)
            begun = {lane: told.pop(lane) for lane in void if lane in told}
            return Step(obs, rewards, terminateds, truncateds, {}, told, begun, {}, void)
        self._watch.ended()
        return self._with_ends(Step(obs, rewards, terminateds, truncateds, void=void), infos, ended, lanes)

    def _with_ends(self, step: Step, infos: Mapping[str, Any], ended: Array, lanes: list[int]) -> Step:
        if self._mode is AutoresetMode.SAME_STEP:
            final = {lane: _as_row(infos["final_obs"][lane], self.observation_space) for lane in lanes}
            last = infos_by_lane(infos.get("final_info", {}), self.num_lanes)
            now = {key: value for key, value in infos.items() if key.lstrip("_") not in ("final_obs", "final_info")}
            told = infos_by_lane(now, self.num_lanes)
            begun = {lane: told.pop(lane) for lane in lanes if lane in told}
            return step._replace(final_obs=final, infos={**told, **last}, reset_infos=begun)
        final = {lane: nested.row(step.obs, lane) for lane in lanes}
        told = infos_by_lane(infos, self.num_lanes)
        begun = {lane: told.pop(lane) for lane in step.void if lane in told}
        if not self._can_mask:
            self._over = ended
            return step._replace(final_obs=final, infos=told, reset_infos=begun)
        first, reset_infos = self._env.reset(options={"reset_mask": ended})
        by_lane = infos_by_lane(reset_infos, self.num_lanes)
        return step._replace(obs=self._checked(first, "reset"), final_obs=final, infos=told, reset_infos=by_lane)

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation.

        Raises EnvError where the vector can only reset all lanes.
        """
        if not self._can_mask:
            raise EnvError(
                f"{self.name} can't reset one lane alone: set the limit of steps where it is made, or step the "
                'environments one by one (kind "loop")'
            )
        mask = np.zeros(self.num_lanes, bool)
        mask[lane] = True
        seeds = [seed if index == lane else None for index in range(self.num_lanes)]
        obs, infos = self._env.reset(seed=seeds if self.independent_lanes else seed, options={"reset_mask": mask})
        self.reset_infos = infos_by_lane(infos, self.num_lanes)
        self._over[lane] = False
        return nested.row(self._checked(obs, "reset"), lane)

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for the vector environment, or for each of its environments if it has them."""
        return [function(env) for env in getattr(self._env.unwrapped, "envs", [self._env])]

    def render(self, lane: int = 0) -> Any:
        """Return what the environment of a lane draws."""
        frames = self._env.render()
        return None if frames is None else frames[lane]

    def snapshot(self, lane: int) -> bytes:
        """Raise EnvError: a lane can't be taken out of a foreign vector."""
        raise _no_snapshot(self.name)

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Raise EnvError: a lane can't be put into a foreign vector."""
        raise _no_snapshot(self.name)

    def close(self) -> None:
        """Close the vector environment."""
        self._env.close()

    def _checked(self, obs: Any, method: str) -> Struct:
        """Return observations in the dtypes of the space, as a copy. Raises EnvError for NaN."""
        forms = nested.empty(self.observation_space, 1)
        struct = nested.mapped(lambda form, value: np.array(value, form.dtype), forms, obs)
        if self._check_numbers and has_nan(struct):
            raise EnvError(f"{self.name}.{method}() returned an observation with NaN in it")
        return struct


class EnvPoolVector:
    """Lanes of an EnvPool with gymnasium's interface, in its synchronous way (`batch_size` as `num_envs`).

    pool: what `envpool.make(name, env_type="gymnasium", num_envs=..., seed=...)` returned. Seeds are given there:
    those of `reset` are not used, and a log line says so.
    """

    independent_lanes = True

    def __init__(self, pool: Any) -> None:
        config = pool.config
        self.name = f"EnvPool {type(pool).__name__}"
        self.num_lanes = int(config["num_envs"])
        if int(config["batch_size"]) != self.num_lanes:
            raise EnvError(
                f"{self.name} has a batch_size of {config['batch_size']} and {self.num_lanes} lanes: make it with "
                "batch_size equal to num_envs, as a step is one of all lanes"
            )
        self._pool = pool
        self.observation_space: Space[Any] = pool.observation_space
        self.action_space: Space[Any] = pool.action_space
        self.reset_infos: Infos = {}
        self._watch = EndlessWatch(self.name, self.num_lanes)

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...]."""
        if any(seed is not None for seed in checked_seeds(seeds, self.num_lanes)):
            _log.info(
                "%s takes seeds when it is made, envpool.make(..., seed=): those of reset() are not used", self.name
            )
        obs, infos = self._pool.reset()
        return _in_order(obs, infos)

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        obs, rewards, terminateds, truncateds, infos = self._pool.step(actions)
        order = np.argsort(infos["env_id"])
        obs = nested.rows(obs, order)
        ends = np.array(terminateds, bool)[order], np.array(truncateds, bool)[order]
        step = Step(obs, np.array(rewards, np.float32)[order], *ends)
        ended = (ends[0] | ends[1]).nonzero()[0]
        if not len(ended):
            self._watch.stepped()
            return step
        self._watch.ended()
        final = {lane: nested.row(obs, lane) for lane in ended.tolist()}
        first = _in_order(*self._pool.reset(ended.astype(np.int32)))
        nested.mapped(lambda array, fresh: array.__setitem__(ended, fresh), obs, first)
        return step._replace(final_obs=final)

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation."""
        return nested.row(_in_order(*self._pool.reset(np.array([lane], np.int32))), 0)

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for the pool, which is one object for all lanes."""
        return [function(self._pool)]

    def render(self, lane: int = 0) -> Any:
        """Raise EnvError: pools are made without windows."""
        raise EnvError(f"{self.name} draws nothing: evaluate with the environment of gymnasium to see episodes")

    def snapshot(self, lane: int) -> bytes:
        """Raise EnvError: a lane can't be taken out of a pool."""
        raise _no_snapshot(self.name)

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Raise EnvError: a lane can't be put into a pool."""
        raise _no_snapshot(self.name)

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()


def is_envpool(env: Any) -> bool:
    """Return whether an object is an EnvPool with gymnasium's interface."""
    return all(hasattr(env, name) for name in ("all_env_ids", "async_reset", "recv", "send", "config"))


def is_gymnasium_vector(env: Any) -> bool:
    """Return whether an object is a vector environment of gymnasium."""
    return isinstance(env, gymnasium.vector.VectorEnv)


def infos_by_lane(infos: Mapping[str, Any], lanes: int) -> Infos:
    """Return the infos of a vector, which are arrays by key, by lane; those of lanes that told nothing are left out.

    A key `_name` is the mask of the lanes that told `name`; without one, all did.
    """
    out: Infos = {}
    for key, values in infos.items():
        if key.startswith("_") and key[1:] in infos:
            continue
        mask = infos.get(f"_{key}")
        if isinstance(values, Mapping):
            for lane, inner in infos_by_lane(values, lanes).items():
                out.setdefault(lane, {})[key] = inner
            continue
        for lane in range(lanes) if mask is None else np.flatnonzero(mask).tolist():
            out.setdefault(lane, {})[key] = values[lane]
    return out


def _as_row(value: Any, space: Space[Any]) -> Struct:
    return nested.mapped(lambda form, part: np.array(part, form.dtype), nested.empty(space, 1), value)


def _in_order(obs: Struct, infos: Mapping[str, Any]) -> Struct:
    """Return observations of some lanes in the order of lanes, as a copy."""
    return nested.rows(obs, np.argsort(infos["env_id"]))


def _no_snapshot(name: str) -> EnvError:
    return EnvError(
        f"the lanes of {name} can't be copied one by one: step the environments in this process or in own ones "
        '(kind "loop" or "processes"), or use recovery="recreate"'
    )
