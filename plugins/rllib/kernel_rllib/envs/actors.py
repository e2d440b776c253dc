"""Lanes in actors, one each: for environments that take long, or need another machine (`remote_worker_envs`).

`step` waits for all lanes. `send` and `poll` go on with those that are ready, so that inference is batched as they come
(`remote_env_batch_wait_ms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space

import kernel
from kernel.exceptions import ActorError
from kernel_rllib.envs.actor_pool import ActorPool
from kernel_rllib.envs.contract import MultiAgentStep, Step
from kernel_rllib.envs.each import for_lanes_from
from kernel_rllib.envs.lanes import checked_seeds
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.multi_agent import ALL
from kernel_rllib.envs.multi_agent_loop import MultiAgentLoop
from kernel_rllib.envs.whereabouts import Whereabouts
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Struct


class ActorsEnv:
    """Steps environments in actors, one each; see `contract.VectorEnv`.

    makers: one for each lane. batch_wait_ms: how long `poll` waits for further lanes after the first is ready.
    restart_failed: whether a lane whose environment raises, or whose actor dies, is made and reset anew. actor_options:
    of `kernel.remote`, such as num_gpus; an actor needs no CPU of its own unless they say so. settings: further
    arguments of `LoopEnv`.
    """

    independent_lanes = True

    def __init__(
        self,
        makers: Sequence[Callable[[], Any]],
        *,
        batch_wait_ms: float = 0.0,
        restart_failed: bool = False,
        actor_options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self._actors = ActorPool(LoopEnv, makers, restart_failed, actor_options or {}, settings)
        self.num_lanes = len(makers)
        self._wait_seconds = batch_wait_ms / 1000
        self.observation_space: Space[Any]
        self.action_space: Space[Any]
        self.observation_space, self.action_space = self._actors.attributes(0, "observation_space", "action_space")
        self.reset_infos: dict[int, dict[str, Any]] = {}
        self._last: list[Struct] = []
        """The last observation of each lane, with an axis of one lane."""
        self._in_flight: dict[int, Any] = {}

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...]."""
        self._in_flight.clear()  # Calls that an error has left behind.
        begun = self._actors.begin_all(checked_seeds(seeds, self.num_lanes))
        self._last = [obs for obs, _ in begun]
        self.reset_infos = {lane: infos[0] for lane, (_, infos) in enumerate(begun) if infos}
        return nested.concatenate(self._last)

    def inside(self) -> Whereabouts:
        """Return where a lane is that is waited for; see `whereabouts.WaitsForProcess`."""
        return self._actors.inside()

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane, and wait for all; see `contract.VectorEnv.step`."""
        lanes = list(range(self.num_lanes))
        self.send(lanes, actions)
        return self._collected(lanes)

    def send(self, lanes: Sequence[int], actions: Struct) -> None:
        """Have some lanes do an action each, a struct [len(lanes), ...], and return at once."""
        if not self._last:
            raise EnvError("step() was called before reset()")
        for place, lane in enumerate(lanes):
            if lane in self._in_flight:
                raise EnvError(f"lane {lane} got an action, but has not told yet what its last one did: poll() first")
            row = nested.mapped(np.copy, nested.rows(actions, slice(place, place + 1)))
            if any(len(leaf) != 1 for leaf in nested.leaves(row)):
                raise EnvError(f"{len(lanes)} lanes need an action each, and got fewer")
            self._in_flight[lane] = self._actors.submit(lane, "step", row)

    def poll(self) -> tuple[list[int], Step]:
        """Wait until a lane is ready; return those that are, and the step whose rows are theirs, in this order.

        Keys of the step's mappings are places in this order, too.
        """
        if not self._in_flight:
            raise EnvError("poll() was called, but no lane has an action: send() some first")
        refs = list(self._in_flight.values())
        ready, others = kernel.wait(refs, num_returns=1)
        if others and self._wait_seconds:
            ready, _ = kernel.wait(refs, num_returns=len(refs), timeout=self._wait_seconds)
        lanes = [lane for lane, ref in self._in_flight.items() if ref in ready]
        return lanes, self._collected(lanes)

    def _collected(self, lanes: list[int]) -> Step:
        steps = [self._one(lane) for lane in lanes]
        for lane, step in zip(lanes, steps, strict=True):
            self._last[lane] = step.obs
        obs, rewards, terminateds, truncateds = (
            nested.concatenate([step[field] for step in steps]) for field in range(4)
        )
        maps: list[dict[int, Any]] = [
            {place: step[field][0] for place, step in enumerate(steps) if step[field]} for field in range(4, 8)
        ]
        final_obs, infos, reset_infos, faults = maps
        return Step(obs, rewards, terminateds, truncateds, final_obs, infos, reset_infos, faults, tuple(faults))

    def _one(self, lane: int) -> Step:
        """Wait for the step of one lane."""
        try:
            step: Step = kernel.get(self._in_flight.pop(lane))
            return step
        except ActorError as error:
            fault, obs, infos = self._actors.renewed(lane, error)
        last = nested.row(self._last[lane], 0)
        yes, no = np.ones(1, bool), np.zeros(1, bool)
        return Step(obs, np.zeros(1, np.float32), no, yes, {0: last}, {}, infos, {0: fault}, (0,))

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation."""
        row, infos = self._actors.begin(lane, "reset_lane", seed)
        self.reset_infos = {lane: infos[0]} if infos else {}
        self._last[lane] = nested.mapped(lambda leaf: np.asarray(leaf)[None], row)
        return row

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function, which goes to the actors, returns for each environment."""
        return [
            value
            for lane in range(self.num_lanes)
            for value in self._actors.call(lane, "foreach", for_lanes_from(lane, function))
        ]

    def render(self, lane: int = 0) -> Any:
        """Return what the environment of a lane draws."""
        return self._actors.call(lane, "render", 0)

    def snapshot(self, lane: int) -> bytes:
        """Return the state of a lane. Raises EnvError where its environment can't be copied."""
        snapshot: bytes = self._actors.call(lane, "snapshot", 0)
        return snapshot

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Put a lane where it was when the snapshot was taken."""
        self._actors.call(lane, "restore", 0, snapshot)

    def close(self) -> None:
        """Close the environments, and end the actors."""
        self._actors.close()


class MultiAgentActors:
    """Steps copies of a multi-agent environment in actors, one each; see `contract.MultiAgentVectorEnv`.

    The arguments are those of `ActorsEnv`; settings are those of `MultiAgentLoop`.
    """

    def __init__(
        self,
        makers: Sequence[Callable[[], Any]],
        *,
        restart_failed: bool = False,
        actor_options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self._actors = ActorPool(MultiAgentLoop, makers, restart_failed, actor_options or {}, settings)
        self.num_envs = len(makers)
        self.possible_agents, self.name = self._actors.attributes(0, "possible_agents", "name")
        self.reset_infos: dict[int, Any] = {}
        self._live: list[dict[Any, Struct]] = [{} for _ in makers]
        self._spaces: dict[tuple[str, Any], Space[Any]] = {}

    def observation_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's observations. Raises EnvError where there is none for it."""
        return self._space("observation_space_of", agent)

    def action_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's actions. Raises EnvError where there is none for it."""
        return self._space("action_space_of", agent)

    def _space(self, method: str, agent: Any) -> Space[Any]:
        if (method, agent) not in self._spaces:
            self._spaces[method, agent] = self._actors.call(0, method, agent)
        return self._spaces[method, agent]

    def reset(self, seeds: Sequence[int | None]) -> list[dict[Any, Struct]]:
        """Begin a new episode in each copy, and return the first observations by agent."""
        begun = self._actors.begin_all(checked_seeds(seeds, self.num_envs))
        self._live = [dict(obs[0]) for obs, _ in begun]
        self.reset_infos = {index: infos[0] for index, (_, infos) in enumerate(begun) if infos}
        return [obs[0] for obs, _ in begun]

    def inside(self) -> Whereabouts:
        """Return where a copy is that is waited for; see `whereabouts.WaitsForProcess`."""
        return self._actors.inside()

    def step(self, actions: Sequence[Mapping[Any, Any] | None]) -> MultiAgentStep:
        """Do the actions of each copy's agents, and wait for all copies; a copy with None is not stepped."""
        if len(actions) != self.num_envs:
            raise EnvError(f"step() got the actions of {len(actions)} copies, and there are {self.num_envs}")
        refs = {
            index: self._actors.submit(index, "step", [dict(action)])
            for index, action in enumerate(actions)
            if action is not None
        }
        nothing = MultiAgentStep([{}], [{}], [{}], [{}])
        steps = [self._one(index, refs[index]) if index in refs else nothing for index in range(self.num_envs)]
        lists = [[step[field][0] for step in steps] for field in range(4)]
        for index in refs:
            self._live[index] = self._live_after(index, steps[index])
        maps = [{index: step[field][0] for index, step in enumerate(steps) if step[field]} for field in range(4, 8)]
        return MultiAgentStep(*lists, *maps)  # type: ignore[arg-type]

    def _live_after(self, index: int, step: MultiAgentStep) -> dict[Any, Struct]:
        """Return the agents of a copy that are in the episode after a step, and what each saw last."""
        if step.terminateds[0][ALL] or step.truncateds[0][ALL]:
            return dict(step.obs[0])
        live = {**self._live[index], **step.obs[0]}
        return {
            agent: seen
            for agent, seen in live.items()
            if not (step.terminateds[0].get(agent) or step.truncateds[0].get(agent))
        }

    def _one(self, index: int, ref: Any) -> MultiAgentStep:
        try:
            step: MultiAgentStep = kernel.get(ref)
            return step
        except ActorError as error:
            fault, obs, infos = self._actors.renewed(index, error)
        agents = self._live[index]
        no, yes = ({**dict.fromkeys(agents, flag), ALL: flag} for flag in (False, True))
        return MultiAgentStep(obs, [{}], [no], [yes], {0: agents}, {}, infos, {0: fault})

    def reset_env(self, index: int, seed: int | None = None) -> dict[Any, Struct]:
        """Give up the episode of one copy, begin the next, and return its first observations."""
        obs, infos = self._actors.begin(index, "reset_env", seed)
        self.reset_infos = {index: infos[0]} if infos else {}
        self._live[index] = dict(obs)
        first: dict[Any, Struct] = obs
        return first

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function, which goes to the actors, returns for each copy."""
        return [
            value
            for index in range(self.num_envs)
            for value in self._actors.call(index, "foreach", for_lanes_from(index, function))
        ]

    def render(self, index: int = 0) -> Any:
        """Return what a copy draws."""
        return self._actors.call(index, "render", 0)

    def snapshot(self, index: int) -> bytes:
        """Return the state of a copy. Raises EnvError where it can't be copied."""
        snapshot: bytes = self._actors.call(index, "snapshot", 0)
        return snapshot

    def restore(self, index: int, snapshot: bytes) -> None:
        """Put a copy where it was when the snapshot was taken."""
        self._actors.call(index, "restore", 0, snapshot)

    def close(self) -> None:
        """Close the environments, and end the actors."""
        self._actors.close()
