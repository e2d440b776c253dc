"""An episode of several agents: who is in it, who has left, which policies act, and what everybody has earned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EPISODES = 1 << 32
"""So many episodes a copy can have before their numbers repeat."""


@dataclass
class MultiAgentEpisode:
    """The data of a running episode. Functions that map agents to policies get it.

    Attributes:
        episode_id: A number that no other episode of the run has.
        length: The number of steps of the environment in it.
        policies: The policies of all agents that have been in it, by agent.
        live: The positions of the lanes of those that are in it now, by agent.
        ended: The agents that were in it, and have left.
        rewards: The rewards of each agent.
        early: The rewards of agents before they first acted.
        user_data: Whatever users want to keep.
    """

    episode_id: int
    length: int = 0
    policies: dict[Any, str] = field(default_factory=dict)
    live: dict[Any, int] = field(default_factory=dict)
    ended: set[Any] = field(default_factory=set)
    rewards: dict[Any, float] = field(default_factory=dict)
    early: dict[Any, float] = field(default_factory=dict)
    user_data: dict[str, Any] = field(default_factory=dict)

    @property
    def id_(self) -> int:
        """The number of the episode, by today's name."""
        return self.episode_id

    @property
    def agent_ids(self) -> list[Any]:
        """The agents that have been in the episode, in the order in which they appeared."""
        return list(self.policies)

    @property
    def total_reward(self) -> float:
        """The sum of the rewards of all agents."""
        return float(sum(self.rewards.values()))

    def policy_for(self, agent_id: Any) -> str:
        """Return the policy of an agent that has been in it."""
        return self.policies[agent_id]

    module_for = policy_for

    def get_agents(self) -> list[Any]:
        """Return all agents that have been in it."""
        return self.agent_ids

    def by_agent(self) -> tuple[tuple[str, str, float], ...]:
        """Return (agent as text, policy, sum of rewards) of each agent that has been in it."""
        return tuple((str(agent), policy, self.rewards.get(agent, 0.0)) for agent, policy in self.policies.items())

    def state(self) -> Mapping[str, Any]:
        """Return all of it but the lanes, as plain values."""
        names = ("episode_id", "length", "policies", "ended", "rewards", "early", "user_data")
        return {name: getattr(self, name) for name in names}
