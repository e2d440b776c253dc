"""Lanes that are stepped one after the other in this process: for environments that take less than about 0.1 ms.

The layers that gymnasium puts around an environment (checker, order, time limit) are taken off, and their work is done
here for all lanes at once. What is left for each lane is the call of its `step`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import length_hint
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from kernel_rllib.envs.contract import Step
from kernel_rllib.envs.lane import NEVER, Lane
from kernel_rllib.envs.lanes import EndlessWatch, checked_seeds, name_of
from kernel_rllib.envs.multi_agent import is_multi_agent
from kernel_rllib.envs.old_gym import Generations, five_values
from kernel_rllib.envs.spaces_of import same_form, space_of
from kernel_rllib.errors import EnvError, SpaceError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.nested import Array, Struct, has_nan

Infos = dict[int, dict[str, Any]]
Faults = dict[int, Exception]


class LoopEnv:
    """Steps environments one after the other; see `contract.VectorEnv`.

    makers: one for each lane, makes its environment, and makes it again where it failed. restart_failed: whether a lane
    whose environment raises, or gives NaN, is made and reset anew, and reported in `Step.faults`; else EnvError is
    raised. max_episode_steps: where episodes are truncated, if the environment's own time limit is not before.
    observation_space, action_space: instead of the environments'. check_numbers: whether NaN in observations and
    rewards is a fault. first_lane: the number of the first lane in messages, where these lanes are a part of more.

    Raises EnvError where an environment has no spaces or can't be made, SpaceError where the lanes' spaces differ.
    """

    independent_lanes = True

    def __init__(
        self,
        makers: Sequence[Callable[[], Any]],
        *,
        restart_failed: bool = False,
        max_episode_steps: int | None = None,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        check_numbers: bool = True,
        first_lane: int = 0,
    ) -> None:
        if not makers:
            raise EnvError("a vector of environments needs one lane at least")
        generations = Generations()
        self._lanes = [Lane(make, generations, max_episode_steps) for make in makers]
        self.name = name_of(self._lanes[0].env)
        self.num_lanes = len(makers)
        self.observation_space, self.action_space = _common_spaces(
            [lane.env for lane in self._lanes], observation_space, action_space
        )
        self.reset_infos: Infos = {}
        self._restart_failed = restart_failed
        self._check_numbers = check_numbers
        self._first_lane = first_lane
        self._encoder = Encoder(self.observation_space, self.name)
        self._watch = EndlessWatch(self.name, self.num_lanes)
        self._steps = [lane.step for lane in self._lanes]
        self._values: list[Any] = []
        """The last observations, as the environments returned them; empty before the first reset."""
        self._tick = 0
        self._deadlines = [NEVER] * self.num_lanes
        """With which step the episode of each lane is truncated."""
        self._deadline = NEVER
        """The first of them."""
        self._no_lane = np.zeros(self.num_lanes, bool)
        self._no_lane.setflags(write=False)

    # -- episodes --------------------------------------------------------------------------------------------------

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...]."""
        self.reset_infos = {}
        self._values = [None] * self.num_lanes
        obs = nested.empty(self.observation_space, self.num_lanes)
        for lane, seed in enumerate(checked_seeds(seeds, self.num_lanes)):
            nested.write_row(obs, lane, self._begin(lane, seed, self.reset_infos))
        return obs

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation."""
        self.reset_infos = {}
        return self._begin(lane, seed, self.reset_infos)

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        if not self._values:
            raise EnvError(f"{self.name}: step() was called before reset()")
        self._tick += 1
        faults: Faults = {}
        results = self._results(_one_by_one(self.action_space, actions), faults)
        try:
            values, rewards, terminateds, truncateds, infos = zip(*results, strict=True)
        except (TypeError, ValueError):
            results = [five_values(result, self.name) for result in results]
            values, rewards, terminateds, truncateds, infos = zip(*results, strict=True)
        obs = self._encoder.batch(values, "step")
        reward_row, is_odd = _reward_row(rewards, self.name, self._first_lane)
        if self._check_numbers and (is_odd or has_nan(obs)):
            self._find_nan(obs, reward_row, faults)
        self._values = list(values)
        told = self._told(infos) if any(infos) else {}
        if self._has_ends(terminateds, truncateds) or self._tick >= self._deadline or faults:
            return self._with_ends(obs, reward_row, [*map(bool, terminateds)], [*map(bool, truncateds)], told, faults)
        self._watch.stepped()
        return Step(obs, reward_row, self._no_lane, self._no_lane, {}, told)

    def _results(self, actions: Sequence[Any], faults: Faults) -> list[Any]:
        """Return what each environment's `step` returned; what raises becomes a fault, and a step that did nothing."""
        if len(actions) != self.num_lanes:
            raise EnvError(f"{self.name}: step() got {len(actions)} actions for {self.num_lanes} lanes")
        steps = iter(self._steps)
        if not self._restart_failed:
            try:
                return [step(action) for step, action in zip(steps, actions, strict=True)]
            except Exception as error:
                self._fault(self.num_lanes - 1 - length_hint(steps), "step", error)
        results: list[Any] = []
        pairs = zip(steps, actions, strict=True)
        while True:
            try:
                for step, action in pairs:
                    results.append(step(action))
                return results
            except Exception as error:  # An environment may raise anything; the loop goes on with the next lane.
                lane = len(results)
                faults[lane] = self._fault(lane, "step", error)
                results.append((self._values[lane], 0.0, False, False, {}))

    def _told(self, infos: Sequence[Any]) -> Infos:
        """Return the infos that say something, by lane. Raises EnvError for what is no dict."""
        told = {lane: info for lane, info in enumerate(infos) if info}
        for lane, info in told.items():
            if not isinstance(info, Mapping):
                raise EnvError(
                    f"{self.name}.step() returned {info!r} ({type(info).__name__}) as info in lane "
                    f"{self._first_lane + lane}: return a dict, {{}} if there is nothing to say"
                )
        return told

    def _has_ends(self, terminateds: Sequence[Any], truncateds: Sequence[Any]) -> bool:
        """Return whether an episode ended. Raises EnvError where it can't be told."""
        try:
            return bool(sum(terminateds) + sum(truncateds))  # None and texts have no sum
        except (TypeError, ValueError):
            pass
        for name, flags in (("terminated", terminateds), ("truncated", truncateds)):
            for lane, flag in enumerate(flags):
                if np.size(flag) != 1 or np.asarray(flag).dtype.kind not in "biuf":
                    raise EnvError(
                        f"{self.name}.step() returned {flag!r} ({type(flag).__name__}) as {name} in lane "
                        f"{self._first_lane + lane}: return True or False"
                    )
        return any(map(bool, terminateds)) or any(map(bool, truncateds))

    def _with_ends(
        self, obs: Struct, rewards: Array, terminateds: list[bool], truncateds: list[bool], infos: Infos, faults: Faults
    ) -> Step:
        """Return the step with the next episodes begun in lanes whose episode ended or whose environment failed."""
        self._watch.ended()
        for lane in faults:
            rewards[lane], terminateds[lane], truncateds[lane] = 0.0, False, True
        if self._tick >= self._deadline:
            for lane, deadline in enumerate(self._deadlines):
                truncateds[lane] |= deadline <= self._tick
        final_obs: dict[int, Struct] = {}
        reset_infos: Infos = {}
        for lane in range(self.num_lanes):
            if terminateds[lane] or truncateds[lane]:
                final_obs[lane] = nested.row(obs, lane)
                fault = faults.get(lane)
                row = self._renew(lane, fault) if fault else self._begin(lane, None, reset_infos)
                nested.write_row(obs, lane, row)
        ends = np.array((terminateds, truncateds))
        return Step(obs, rewards, ends[0], ends[1], final_obs, infos, reset_infos, faults, tuple(faults))

    def _begin(self, lane: int, seed: int | None, infos: Infos) -> Struct:
        """Begin an episode in one lane, and return its first observation as a row."""
        try:
            value, info = self._lanes[lane].begin(seed, self._tick)
        except Exception as error:
            return self._renew(lane, self._fault(lane, "reset", error))
        if info:
            infos[lane] = info
        return self._first_row(lane, value)

    def _first_row(self, lane: int, value: Any) -> Struct:
        row = self._encoder.one(value, "reset", self._first_lane + lane)
        if self._check_numbers and has_nan(row):
            raise EnvError(
                f"{self.name}.reset() returned an observation with NaN in it, in lane {self._first_lane + lane}: {row}"
            )
        self._values[lane] = value
        self._set_deadline(lane)
        return row

    def _set_deadline(self, lane: int) -> None:
        self._deadlines[lane] = self._lanes[lane].deadline
        self._deadline = min(self._deadlines)

    # -- faults ----------------------------------------------------------------------------------------------------

    def _fault(self, lane: int, method: str, error: Exception) -> EnvError:
        """Return the error of a failed lane; raise it where lanes are not restarted."""
        fault = self._lanes[lane].fault(f"lane {self._first_lane + lane}", method, self._tick, error)
        if not self._restart_failed:
            raise fault from error
        return fault

    def _renew(self, lane: int, fault: Exception) -> Struct:
        """Make the environment of a lane anew, begin an episode in it, and return its first observation as a row."""
        state = self._lanes[lane]
        where = f"lane {self._first_lane + lane}"
        row = state.renewed(where, self._tick, fault, lambda value: self._first_row(lane, value))
        self._steps[lane] = state.step
        return row

    def _find_nan(self, obs: Struct, rewards: Array, faults: Faults) -> None:
        """Add a fault for each lane with NaN in its observation or reward; its step is taken back."""
        for leaf in (rewards, *nested.leaves(obs)):
            if leaf.dtype.kind != "f":
                continue
            what = "a reward" if leaf is rewards else "an observation"
            for lane in np.flatnonzero(np.isnan(leaf).reshape(self.num_lanes, -1).any(axis=1)).tolist():
                error = ValueError(f"it returned {what} that is, or has in it, NaN")
                faults[lane] = self._fault(lane, "step", error)
                nested.write_row(obs, lane, self._encoder.one(self._values[lane], "step", lane))

    # -- the environments ------------------------------------------------------------------------------------------

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for the environment of each lane."""
        return [function(lane.env) for lane in self._lanes]

    def render(self, lane: int = 0) -> Any:
        """Return what the environment of a lane draws."""
        return self._lanes[lane].render()

    def snapshot(self, lane: int) -> bytes:
        """Return the state of a lane. Raises EnvError where its environment can't be copied."""
        return self._lanes[lane].snapshot(self._tick, self._values[lane] if self._values else None)

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Put a lane where it was when the snapshot was taken."""
        self._values = self._values or [None] * self.num_lanes
        self._values[lane] = self._lanes[lane].restore(snapshot, self._tick)
        self._steps[lane] = self._lanes[lane].step
        self._set_deadline(lane)

    def close(self) -> None:
        """Close all environments."""
        for lane in self._lanes:
            lane.close()


def _common_spaces(
    envs: list[Any], observation_space: Space[Any] | None, action_space: Space[Any] | None
) -> tuple[Space[Any], Space[Any]]:
    """Return the spaces that all lanes share: the first one's. Raises SpaceError where others have other forms."""
    if is_multi_agent(envs[0]):
        raise EnvError(f"{name_of(envs[0])} has several agents: its copies are stepped by MultiAgentLoop, or in actors")
    found = []
    for name, given in (("observation_space", observation_space), ("action_space", action_space)):
        common = space_of(envs[0], name) if given is None else given
        for lane, env in enumerate(envs):
            own = space_of(env, name) if given is None else given
            if not same_form(own, common):
                raise SpaceError(
                    f"{name_of(env)}: {name} of lane {lane} is {own}, and that of lane 0 is {common}: all lanes of a "
                    "runner are seen by one network, so their spaces must have the same form"
                )
        found.append(common)
    return found[0], found[1]


def _one_by_one(space: Space[Any], actions: Struct) -> Sequence[Any]:
    """Return the action of each lane; arrays are copies, as environments keep them, or write into them."""
    if isinstance(space, spaces.Discrete):
        index: Sequence[Any] = actions  # Its items are scalars of numpy, as `sample` returns them.
        return index
    return nested.unstack(space, nested.copy(actions))


def _reward_row(rewards: tuple[Any, ...], owner: str, first_lane: int) -> tuple[Array, bool]:
    """Return the rewards of all lanes, float32, and whether NaN may be among them.

    Raises EnvError for what is no number.
    """
    try:
        total = sum(rewards)
        row = np.array(rewards, np.float32)
        if row.ndim == 1:
            return row, not math.isfinite(total)
    except (TypeError, ValueError):
        pass
    for lane, reward in enumerate(rewards):
        if np.size(reward) != 1 or np.asarray(reward).dtype.kind not in "biuf":
            raise EnvError(
                f"{owner}.step() returned {reward!r} ({type(reward).__name__}) as reward in lane {first_lane + lane}: "
                "return one number"
            )
    return np.array([np.asarray(reward).item() for reward in rewards], np.float32), True
