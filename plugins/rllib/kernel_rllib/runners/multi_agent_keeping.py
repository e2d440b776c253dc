"""The state of copies of an environment with several agents: what they need to go on elsewhere, bit for bit."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.agent_observer import AgentCallbacks
from kernel_rllib.envs.contract import MultiAgentVectorEnv
from kernel_rllib.runners.agents import Agents
from kernel_rllib.runners.casts import Cast, Lanes, make_lanes
from kernel_rllib.runners.multi_agent_episode import MultiAgentEpisode
from kernel_rllib.runners.place import RunnerPlace


class KeepsCopies(ABC):
    """The half of a sampler that keeps its copies, with the episodes that they are in."""

    lanes: Array
    observer: AgentCallbacks | None
    place: RunnerPlace | None
    _begun: list[int]
    _agents: Agents
    _envs: MultiAgentVectorEnv
    _is_torn: bool
    _seed: int
    _steps: Array

    @property
    @abstractmethod
    def modules(self) -> Mapping[str, Lanes]:
        """The modules that act in episodes that begin now, by their ids."""

    @abstractmethod
    def _begin_anew(self, place: int) -> None:
        """Begin a new episode in one copy."""

    @abstractmethod
    def _begin_all_anew(self) -> None:
        """Begin new episodes in all copies."""

    def state(self) -> dict[str, Any]:
        """Return all that these copies need to go on elsewhere, bit for bit, where environments can be copied.

        Raises:
            EnvError: If an environment, or a policy or mapping of an episode that has kept it, can't be copied.
        """
        if self._is_torn:
            self._begin_all_anew()
        pieces: dict[str, bytes] = {}
        lanes = {str(copy): self._state_of(place, pieces) for place, copy in enumerate(self.lanes.tolist())}
        return {"lanes": lanes, "casts": pieces}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, of these copies and perhaps of others.

        Copies without a state, or whose state has no environment, or policies that are not there, begin new episodes.
        """
        for lanes in self.modules.values():
            lanes.forget()
        self._agents.casts.begin_all()
        self._is_torn = False
        most = max((int(found["steps"]) for found in state["lanes"].values()), default=0)
        made: dict[str, Any] = {}
        for place, copy in enumerate(self.lanes.tolist()):
            kept = {"steps": most, "begun": 0, **state["lanes"].get(str(copy), {})}
            cast = (
                self._agents.casts.restored(kept, state.get("casts", {}), self._make_lanes, made)
                if "env" in kept
                else None
            )
            self._set_state_of(place, copy, kept, cast)
        self._agents.show_policies()

    def _state_of(self, place: int, pieces: dict[str, bytes]) -> dict[str, Any]:
        copy, episode = int(self.lanes[place]), self._agents.episodes[place]
        agents: list[Any] = []
        for agent, position in episode.live.items():
            lanes = self._agents.lanes_of(place, agent)
            agents.append((agent, lanes.numbers[position], lanes.seen_by(position)))
        modules = {
            module_id: {str(slot): lanes.lane_state(position) for slot, position in lanes.of_copy(copy).items()}
            for module_id, lanes in self.modules.items()
        }
        kept = {} if self.observer is None else {"callbacks": self.observer.state(place)}
        return {
            **kept,
            **self._agents.casts.state_of(place, copy, pieces),
            "env": self._envs.snapshot(place),
            "agents": pickle.dumps((dict(episode.state()), agents)),
            "steps": int(self._steps[place]),
            "begun": self._begun[place],
            "modules": {module_id: slots for module_id, slots in modules.items() if slots},
        }

    def _set_state_of(self, place: int, copy: int, state: Mapping[str, Any], cast: Cast | None) -> None:
        """Let a copy go on with its state; its episode with this cast, and with None a new one."""
        self._steps[place], self._begun[place] = int(state["steps"]), int(state["begun"])
        known, agents = pickle.loads(state["agents"]) if "env" in state else ({}, [])
        goes_on = cast is not None and cast.modules.keys() >= {*known["policies"].values()}
        if "env" in state:
            self._envs.restore(place, state["env"])
        places = {}
        if cast is not None and goes_on:
            self._agents.casts[place] = cast
            episode = self._agents.episodes[place] = MultiAgentEpisode(**known)
            for agent, number, seen in agents:
                lanes = cast.modules[episode.policies[agent]]
                position = episode.live[agent] = lanes.take_number(number, place, agent)
                lanes.own(position, episode.episode_id, list(episode.policies).index(agent))
                places[agent] = (lanes, position, seen)
            for module_id, slots in state.get("former", {}).items():
                _set_lanes(cast.modules[module_id], copy, slots)
        for module_id, slots in state.get("modules", {}).items():
            if module_id in self.modules:
                _set_lanes(self.modules[module_id], copy, slots, counts_only=not goes_on)
        for lanes, position, seen in places.values():
            if seen is not None:
                lanes.observe(position, seen)
        if not goes_on:
            self._begin_anew(place)
        elif self.observer is not None:
            observed = {agent: seen for agent, (_, _, seen) in places.items() if seen is not None}
            self.observer.set_state(place, state.get("callbacks"), self._agents.episodes[place], observed)

    def _make_lanes(self, module_id: str, policy: Any) -> Lanes:
        assert self.place is not None
        return make_lanes(module_id, policy, self.place, self._seed)


def _set_lanes(lanes: Lanes, copy: int, slots: Mapping[str, Any], *, counts_only: bool = False) -> None:
    """Let the lanes of a copy have these states, by their slots."""
    for slot, kept in slots.items():
        lanes.set_lane_state(lanes.position_in(copy, int(slot)), lanes.counts_of(kept) if counts_only else kept)
