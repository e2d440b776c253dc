"""Environments with several agents: the class that they derive from, agents in groups, and copies as agents.

Both generations are understood: `reset()` returns observations by agent, or (observations, infos); `step()` takes
actions by agent and returns four dicts by agent (observations, rewards, dones, infos) or five (terminateds and
truncateds). The key "__all__" tells that the episode is over for everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium import Space

from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.groups import GROUP_INFO, GROUP_REWARDS, INDIVIDUAL_REWARDS, Groups
from kernel_rllib.envs.old_gym import TRUNCATED_KEY, Generations, five_values, modern_space
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.errors import EnvError

ALL = "__all__"
"""The key that stands for all agents in dicts of ends."""
COMMON = "__common__"
"""The key of infos that belong to no agent."""
Dicts = tuple[dict[Any, Any], dict[Any, Any], dict[Any, bool], dict[Any, bool], dict[Any, Any]]


class MultiAgentEnv(gymnasium.Env[Any, Any]):
    """Derive from it, and define `reset` and `step`. `__init__` need not be called.

    Agents may come and go within an episode: an action is asked for each agent that got an observation. Spaces are told
    by `observation_spaces` and `action_spaces` (dicts by agent), or by `observation_space` and `action_space`, which
    then are those of every agent.
    """

    agents: Sequence[Any] = ()
    """The agents that are in the episode now."""
    possible_agents: Sequence[Any] = ()
    """All that there may ever be, where that is known."""
    observation_spaces: Mapping[Any, Space[Any]] | None = None
    action_spaces: Mapping[Any, Space[Any]] | None = None
    observation_space: Any = None
    action_space: Any = None

    def __init__(self) -> None:
        return

    @property
    def num_agents(self) -> int:
        """The number of agents in the episode."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """The greatest number of agents that there may be."""
        return len(self.possible_agents)

    def get_agent_ids(self) -> set[Any]:
        """Return all agents that are known."""
        return set(known_agents(self))

    def get_observation_space(self, agent_id: Any) -> Space[Any]:
        """Return the space of an agent's observations."""
        return agent_space(self, "observation_space", agent_id)

    def get_action_space(self, agent_id: Any) -> Space[Any]:
        """Return the space of an agent's actions."""
        return agent_space(self, "action_space", agent_id)

    def with_agent_groups(self, groups: Any, obs_space: Any = None, act_space: Any = None, *more: Any) -> MultiAgentEnv:
        """Return an environment in which groups of these agents act as one.

        groups: a dict of lists of agents. obs_space, act_space: the Tuple spaces of a group; by default, those of its
        members. The rewards of a group are added up; the info of a group has them in "individual_rewards".
        """
        if groups is self:  # the documents of 0.8.5 pass the environment once more
            groups, obs_space, act_space = obs_space, act_space, more[0] if more else None
        return GroupAgentsWrapper(self, groups, obs_space, act_space)


class GroupAgentsWrapper(MultiAgentEnv):
    """An environment in which groups of another one's agents act as one; see `MultiAgentEnv.with_agent_groups`."""

    def __init__(
        self,
        env: Any,
        groups: Mapping[Any, Sequence[Any]],
        obs_space: Space[Any] | None = None,
        act_space: Space[Any] | None = None,
    ) -> None:
        self.env = env
        self.groups = Groups(groups)
        self._reset = Generations().reset_of(env)
        names = known_agents(env) or [agent for members in groups.values() for agent in members]
        self.agents = self.possible_agents = self.groups.of_agents(names)

        def spaces_by_agent(name: str, given: Space[Any] | None, argument: str) -> dict[Any, Space[Any]]:
            return {
                agent: self.groups.space(lambda member: agent_space(env, name, member), given, argument, agent)
                for agent in self.possible_agents
            }

        self.observation_spaces = spaces_by_agent("observation_space", obs_space, "obs_space")
        self.action_spaces = spaces_by_agent("action_space", act_space, "act_space")

    @property
    def unwrapped(self) -> Any:
        """The environment whose agents are grouped."""
        return self.env.unwrapped

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode."""
        obs, infos = self._reset(seed)
        return self.groups.joined(obs, tuple, "observation"), self._infos(infos, {})

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Do the actions of groups, which are sequences, and of agents without a group."""
        returned = self.env.step(self.groups.apart(action_dict))
        obs, rewards, terminateds, truncateds, infos = five_dicts(returned, type(self.env).__name__)
        individual = self.groups.joined(rewards, list, "reward")
        summed = {
            key: sum(filter(None, value)) if key in self.groups.members else value for key, value in individual.items()
        }
        return (
            self.groups.joined(obs, tuple, "observation"),
            summed,
            self._all_of(terminateds),
            self._all_of(truncateds),
            self._infos(infos, individual),
        )

    def render(self) -> Any:
        """Return what the environment draws."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _all_of(self, flags: Mapping[Any, bool]) -> dict[Any, bool]:
        """Return ends by group: a group has come to its end when all its members have."""
        grouped = self.groups.of_agents([agent for agent in flags if agent != ALL])
        out = {key: all(flags.get(member, False) for member in self.groups.members.get(key, [key])) for key in grouped}
        return {**out, ALL: flags[ALL]} if ALL in flags else out

    def _infos(self, infos: Mapping[Any, Any], rewards: Mapping[Any, Any]) -> dict[Any, Any]:
        out = {key: info for key, info in infos.items() if self.groups.of_agents([key]) == [key]}
        for group, members in self.groups.members.items():
            told = [infos.get(member, {}) for member in members]
            if group in rewards:
                out[group] = {
                    INDIVIDUAL_REWARDS: list(rewards[group]),
                    GROUP_REWARDS: list(rewards[group]),
                    GROUP_INFO: told,
                }
            elif any(told):
                out[group] = {GROUP_INFO: told}
        return out


class CopiesAsAgents(MultiAgentEnv):
    """Several copies of a single-agent environment, one for each agent; see `make_multi_agent`."""

    maker: Any = None

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        settings = dict(env_config or {})
        count = settings.pop("num_agents", 1)
        context = env_config if isinstance(env_config, EnvContext) else EnvContext(settings)
        make = env_maker(self.maker)
        self._envs = [make(context.copy_with_overrides(env_config=settings)) for _ in range(int(count))]
        generations = Generations()
        self._resets = [generations.reset_of(env) for env in self._envs]
        self.agents = self.possible_agents = list(range(len(self._envs)))
        self.observation_spaces = {agent: modern_space(env.observation_space) for agent, env in enumerate(self._envs)}
        self.action_spaces = {agent: modern_space(env.action_space) for agent, env in enumerate(self._envs)}
        self.observation_space, self.action_space = self.observation_spaces[0], self.action_spaces[0]
        self._ended: set[int] = set()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode of all agents."""
        self._ended = set()
        begun = [reset(None if seed is None else seed + agent) for agent, reset in enumerate(self._resets)]
        return dict(enumerate(obs for obs, _ in begun)), dict(enumerate(info for _, info in begun))

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Step the copies of the agents that have an action; the episode is over when all copies' are."""
        out: Dicts = ({}, {}, {}, {}, {})
        for agent, action in action_dict.items():
            if agent in self._ended:
                raise EnvError(f"agent {agent!r} got an action, but its episode has ended")
            for values, value in zip(out, five_values(self._envs[agent].step(action), "the copy's"), strict=True):
                values[agent] = value
            if out[2][agent] or out[3][agent]:
                self._ended.add(agent)
        everybody = len(self._ended) == len(self._envs)
        out[2][ALL] = everybody and any(out[2].values())
        out[3][ALL] = everybody and not out[2][ALL]
        return out

    def render(self) -> Any:
        """Return what the first copy draws."""
        return self._envs[0].render()

    def close(self) -> None:
        """Close all copies."""
        for env in self._envs:
            env.close()


def make_multi_agent(env_name_or_creator: str | Callable[[EnvContext], Any] | type) -> type[MultiAgentEnv]:
    """Return a class of environments with `num_agents` agents, each in a copy of its own of a single-agent environment.

    env_name_or_creator: what names the environment; see `registry.env_maker`. The class takes an `env_config` with
    `num_agents` (1), whose other settings are the copies'.
    """
    maker = env_maker(env_name_or_creator)
    return type(f"MultiAgent{maker.name}", (CopiesAsAgents,), {"maker": maker})


def is_multi_agent(env: Any) -> bool:
    """Return whether an environment has several agents."""
    return isinstance(env, MultiAgentEnv) or isinstance(getattr(env, "unwrapped", None), MultiAgentEnv)


def known_agents(env: Any) -> list[Any]:
    """Return the agents that an environment says it has, in order; none where it says nothing."""
    for name in ("possible_agents", "_agent_ids", "agents"):
        agents = getattr(env, name, None)
        if agents:
            return list(agents)
    return list(env.observation_spaces or ()) if getattr(env, "observation_spaces", None) else []


def agent_space(env: Any, name: str, agent: Any) -> Space[Any]:
    """Return the space of one agent; `name` is "observation_space" or "action_space". Raises EnvError without one."""
    by_agent = getattr(env, f"{name}s", None)
    if by_agent and agent in by_agent:
        return _checked_space(modern_space(by_agent[agent]), env, name, agent)
    space = modern_space(getattr(env, name, None))
    if isinstance(space, gymnasium.spaces.Dict) and {agent, *known_agents(env)} <= set(space.spaces):
        return space.spaces[agent]  # A dict by agent, not by part of an observation.
    if space is None:
        raise EnvError(
            f"{type(env).__name__} has no {name} for agent {agent!r}: set {name}s to a dict with it, {name} for all "
            "agents alike, or give the spaces in the config's policies"
        )
    return _checked_space(space, env, name, agent)


def five_dicts(returned: Any, owner: str) -> Dicts:
    """Return (observations, rewards, terminateds, truncateds, infos) of what `step()` of either generation returned.

    Of the older one's dones, those whose info has "TimeLimit.truncated" are truncated. Raises EnvError for what is no
    four or five dicts, or does not say with "__all__" whether the episode is over.
    """
    if not isinstance(returned, (tuple, list)) or len(returned) not in (4, 5):
        found = f"{len(returned)} values" if isinstance(returned, (tuple, list)) else repr(returned)
        raise EnvError(
            f"{owner}.step() returned {found}: a multi-agent environment returns dicts by agent: (observations, "
            "rewards, terminateds, truncateds, infos), or (observations, rewards, dones, infos) as before"
        )
    for value in returned:
        if not isinstance(value, Mapping):
            raise EnvError(
                f"{owner}.step() returned {value!r} ({type(value).__name__}) where a dict by agent is expected: "
                "(observations, rewards, terminateds, truncateds, infos)"
            )
    if ALL not in returned[2]:
        ends = "dones" if len(returned) == 4 else "terminateds"
        raise EnvError(
            f'{owner}.step() returned {ends} {dict(returned[2])!r} without the key "__all__": it tells whether the '
            "episode is over for all agents"
        )
    if len(returned) == 5:
        obs, rewards, terminateds, truncateds, infos = map(dict, returned)
        return obs, rewards, terminateds, {ALL: False, **truncateds}, infos
    obs, rewards, dones, infos = map(dict, returned)
    cut = {agent for agent, info in infos.items() if isinstance(info, Mapping) and info.get(TRUNCATED_KEY)}
    truncateds = {agent: bool(done) and agent in cut for agent, done in dones.items()}
    truncateds[ALL] = bool(dones[ALL]) and bool(cut)
    terminateds = {agent: bool(done) and not truncateds[agent] for agent, done in dones.items()}
    return obs, rewards, terminateds, truncateds, infos


def _checked_space(space: Any, env: Any, name: str, agent: Any) -> Space[Any]:
    if not isinstance(space, Space):
        raise EnvError(
            f"{type(env).__name__}: the {name} of agent {agent!r} is {space!r} ({type(space).__name__}): it must be a "
            "space of gymnasium.spaces"
        )
    return space
