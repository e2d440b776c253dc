"""Groups of agents that act as one: what their observations, actions and rewards become, and how they come apart.

Pure: dicts by agent in, dicts by agent or group out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gymnasium import Space, spaces

from kernel_rllib.errors import EnvError, SpaceError

INDIVIDUAL_REWARDS = "individual_rewards"
"""In the info of a group: the rewards of its members, in order."""
GROUP_REWARDS = "_group_rewards"
"""The same, as releases up to 2.x called it."""
ENV_STATE = "state"
"""In the observations of agents that are a Dict: the global state, which mixing networks of groups take."""
GROUP_INFO = "_group_info"
"""In the info of a group: the infos of its members, in order."""


class Groups:
    """Puts the agents of a group together. Agents in no group stay as they are.

    groups: the members of each group, in order. Raises EnvError where an agent is in two groups, or a group is empty.
    """

    def __init__(self, groups: Mapping[Any, Sequence[Any]]) -> None:
        self.members = {group: list(members) for group, members in groups.items()}
        self._group_of: dict[Any, Any] = {}
        for group, members in self.members.items():
            if not members:
                raise EnvError(f"group {group!r} has no members: name at least one agent")
            for agent in members:
                if agent in self._group_of:
                    raise EnvError(
                        f"agent {agent!r} is in the groups {self._group_of[agent]!r} and {group!r}: it can be in one"
                    )
                self._group_of[agent] = group

    def of_agents(self, agents: Sequence[Any]) -> list[Any]:
        """Return the groups and the agents without a group that stand for some agents, in order."""
        return list(dict.fromkeys(self._group_of.get(agent, agent) for agent in agents))

    def space(
        self, space_of: Callable[[Any], Space[Any]], given: Space[Any] | None, name: str, group: Any
    ) -> Space[Any]:
        """Return the space of a group or of an agent without one: a Tuple of its members' spaces, or the given one.

        Raises SpaceError where the given one is no Tuple.
        """
        if group not in self.members:
            return space_of(group)
        if given is None:
            return spaces.Tuple([space_of(agent) for agent in self.members[group]])
        if not isinstance(given, spaces.Tuple):
            raise SpaceError(f"with_agent_groups() got {name}={given}, but the space of a group is a Tuple")
        return given

    def joined(self, values: Mapping[Any, Any], join: Callable[[list[Any]], Any], what: str) -> dict[Any, Any]:
        """Return values by group, each what `join` makes of its members' values; others stay.

        Raises EnvError where some members of a group have a value and others have none.
        """
        out: dict[Any, Any] = {}
        for agent, value in values.items():
            group = self._group_of.get(agent)
            if group is None:
                out[agent] = value
            elif group not in out:
                missing = [member for member in self.members[group] if member not in values]
                if missing:
                    raise EnvError(
                        f"agents {missing} of group {group!r} have no {what}, but {agent!r} has: all members of a "
                        "group act at the same time"
                    )
                out[group] = join([values[member] for member in self.members[group]])
        return out

    def apart(self, values: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return values by agent: those of groups are sequences, with one value for each member."""
        out: dict[Any, Any] = {}
        for key, value in values.items():
            if key not in self.members:
                out[key] = value
                continue
            members = self.members[key]
            if len(value) != len(members):
                raise EnvError(f"group {key!r} got {len(value)} actions for its {len(members)} members")
            out.update(zip(members, value, strict=True))
        return out
