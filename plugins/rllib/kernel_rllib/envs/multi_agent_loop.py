"""Copies of a multi-agent environment that are stepped one after the other in this process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gymnasium import Space

from kernel_rllib.envs.contract import MultiAgentStep
from kernel_rllib.envs.lane import Lane
from kernel_rllib.envs.lanes import EndlessWatch, checked_seeds, name_of
from kernel_rllib.envs.multi_agent import ALL, agent_space, five_dicts, known_agents
from kernel_rllib.envs.old_gym import Generations
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.nested import Struct, has_nan

ByAgent = dict[Any, Any]


class MultiAgentLoop:
    """Steps copies of a multi-agent environment one after the other; see `contract.MultiAgentVectorEnv`.

    makers: one for each copy. restart_failed: whether a copy that raises is made and reset anew, and reported in
    `MultiAgentStep.faults`; else EnvError is raised. max_episode_steps: where episodes are truncated. first_env: the
    number of the first copy in messages.
    """

    def __init__(
        self,
        makers: Sequence[Callable[[], Any]],
        *,
        restart_failed: bool = False,
        max_episode_steps: int | None = None,
        first_env: int = 0,
    ) -> None:
        if not makers:
            raise EnvError("a vector of environments needs one copy at least")
        generations = Generations()
        self._lanes = [Lane(make, generations, max_episode_steps) for make in makers]
        self.name = self._name = name_of(self._lanes[0].env)
        self.num_envs = len(makers)
        self.possible_agents: Sequence[Any] = known_agents(self._lanes[0].env)
        self.reset_infos: dict[int, ByAgent] = {}
        self._restart_failed = restart_failed
        self._first_env = first_env
        self._encoders: dict[Any, Encoder] = {}
        self._live: list[ByAgent] = [{} for _ in makers]
        """By copy: the agents that are in the episode, and what each saw last."""
        self._watch = EndlessWatch(self._name, self.num_envs)
        self._tick = 0
        self._begun = False

    def observation_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's observations. Raises EnvError where there is none for it."""
        return agent_space(self._lanes[0].env, "observation_space", agent)

    def action_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's actions. Raises EnvError where there is none for it."""
        return agent_space(self._lanes[0].env, "action_space", agent)

    def reset(self, seeds: Sequence[int | None]) -> list[dict[Any, Struct]]:
        """Begin a new episode in each copy, and return the first observations by agent."""
        self.reset_infos = {}
        self._begun = True
        checked = checked_seeds(seeds, self.num_envs)
        return [self._begin(index, seed, self.reset_infos) for index, seed in enumerate(checked)]

    def reset_env(self, index: int, seed: int | None = None) -> dict[Any, Struct]:
        """Give up the episode of one copy, begin the next, and return its first observations."""
        self.reset_infos = {}
        return self._begin(index, seed, self.reset_infos)

    def step(self, actions: Sequence[Mapping[Any, Any] | None]) -> MultiAgentStep:
        """Do the actions of each copy's agents; a copy with None is not stepped."""
        if not self._begun:
            raise EnvError(f"{self._name}: step() was called before reset()")
        if len(actions) != self.num_envs:
            raise EnvError(
                f"{self._name}: step() got the actions of {len(actions)} copies, and there are {self.num_envs}"
            )
        self._tick += 1
        step = MultiAgentStep([], [], [], [], {}, {}, {}, {})
        ended = False
        for index, action_dict in enumerate(actions):
            if action_dict is None:
                for values in step[:4]:
                    values.append({})
            else:
                ended |= self._step_one(index, action_dict, step)
        if ended:
            self._watch.ended()
        else:
            self._watch.stepped()
        return step

    def _step_one(self, index: int, actions: Mapping[Any, Any], step: Any) -> bool:
        """Step one copy and add what it gave to `step`; return whether its episode ended."""
        live = self._live[index]
        try:
            returned = self._lanes[index].step(dict(actions))
            obs, rewards, terminateds, truncateds, infos = five_dicts(returned, self._name)
            seen = {agent: self._encoded(agent, value, "step") for agent, value in obs.items()}
            rewards = {agent: _number(reward, agent) for agent, reward in rewards.items() if reward is not None}
        except Exception as error:
            step.faults[index] = self._fault(index, "step", error)
            seen, rewards, infos = dict(live), {}, {}
            terminateds, truncateds = {ALL: False}, {ALL: True}
        if self._lanes[index].deadline <= self._tick:
            truncateds[ALL] = True
        over = bool(terminateds[ALL] or truncateds[ALL])
        agents = dict.fromkeys((*live, *seen))
        ends = [_ends(flags, agents) for flags in (terminateds, truncateds)]
        gone = [agent for agent in agents if over or ends[0][agent] or ends[1][agent]]
        if gone:
            step.final_obs[index] = {agent: seen[agent] for agent in gone if agent in seen}
        live.update(seen)
        for agent in gone:
            live.pop(agent, None)
        if infos:
            step.infos[index] = infos
        step.rewards.append(rewards)
        step.terminateds.append(ends[0])
        step.truncateds.append(ends[1])
        fault = step.faults.get(index)
        if fault:
            step.obs.append(self._renew(index, fault))
        elif over:
            step.obs.append(self._begin(index, None, step.reset_infos))
        else:
            step.obs.append({agent: value for agent, value in seen.items() if agent in live})
        return over

    def _begin(self, index: int, seed: int | None, infos: dict[int, ByAgent]) -> dict[Any, Struct]:
        try:
            obs, info = self._lanes[index].begin(seed, self._tick)
        except Exception as error:
            return self._renew(index, self._fault(index, "reset", error))
        if info:
            infos[index] = info
        return self._first(index, obs)

    def _first(self, index: int, obs: Any) -> dict[Any, Struct]:
        if not isinstance(obs, Mapping):
            raise EnvError(
                f"{self._name}.reset() returned {obs!r} ({type(obs).__name__}): a multi-agent environment returns a "
                "dict of observations by agent, or (observations, infos)"
            )
        if not obs:
            raise EnvError(f"{self._name}.reset() returned no observations: at least one agent has to act first")
        first = {agent: self._encoded(agent, value, "reset") for agent, value in obs.items()}
        self._live[index] = dict(first)
        return first

    def _encoded(self, agent: Any, value: Any, method: str) -> Struct:
        encoder = self._encoders.get(agent)
        if encoder is None:
            what = f"observation of agent {agent!r}"
            encoder = self._encoders[agent] = Encoder(self.observation_space_of(agent), self._name, what)
        row = encoder.one(value, method)
        if has_nan(row):
            raise EnvError(f"{self._name}.{method}() returned NaN in the observation of agent {agent!r}: {row}")
        return row

    def _fault(self, index: int, method: str, error: Exception) -> EnvError:
        """Return the error of a failed copy; raise it where copies are not restarted."""
        fault = self._lanes[index].fault(f"copy {self._first_env + index}", method, self._tick, error)
        if not self._restart_failed:
            raise fault from error
        return fault

    def _renew(self, index: int, fault: Exception) -> dict[Any, Struct]:
        where = f"copy {self._first_env + index}"
        return self._lanes[index].renewed(where, self._tick, fault, lambda obs: self._first(index, obs))

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for each copy."""
        return [function(lane.env) for lane in self._lanes]

    def render(self, index: int = 0) -> Any:
        """Return what a copy draws."""
        return self._lanes[index].render()

    def snapshot(self, index: int) -> bytes:
        """Return the state of a copy. Raises EnvError where it can't be copied."""
        return self._lanes[index].snapshot(self._tick, self._live[index])

    def restore(self, index: int, snapshot: bytes) -> None:
        """Put a copy where it was when the snapshot was taken."""
        self._live[index] = self._lanes[index].restore(snapshot, self._tick)
        self._begun = True

    def close(self) -> None:
        """Close all copies."""
        for lane in self._lanes:
            lane.close()


def _ends(flags: Mapping[Any, bool], agents: Mapping[Any, Any]) -> dict[Any, bool]:
    """Return whether the episode of each agent ended, and of all: what is said of all counts for each."""
    everybody = bool(flags[ALL])
    return {**{agent: everybody or bool(flags.get(agent, False)) for agent in agents}, ALL: everybody}


def _number(reward: Any, agent: Any) -> float:
    """Return a reward as a number. Raises ValueError for what is none."""
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"the reward of agent {agent!r} is {reward!r}, which is no number")
    return number
