"""Check that the spaces of an agent are those of the policy that is to act for it."""

from __future__ import annotations

from typing import Any, Protocol

from gymnasium import Space, spaces

from kernel_rllib.errors import EnvError


class AgentSpaces(Protocol):
    """Tells the spaces of agents."""

    def observation_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's observations."""
        ...

    def action_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's actions."""
        ...


def require_space(envs: AgentSpaces, env_name: str, method: str, agent: Any, policy_id: str, policy: Any) -> None:
    """Raise EnvError unless an agent has spaces, and they are those of its policy.

    Args:
        envs: The environments, which know the spaces of agents.
        env_name: The name of the environment, for messages.
        method: The method that returned its first observation.
        agent: The agent.
        policy_id: The id of its policy.
        policy: The policy, or any object with its `observation_space` and `action_space`.
    """
    found = (
        ("observation_space", envs.observation_space_of(agent), policy.observation_space),
        ("action_space", envs.action_space_of(agent), policy.action_space),
    )
    for kind, of_agent, of_policy in found:
        if not are_alike(of_agent, of_policy):
            raise EnvError(
                f"{env_name}.{method}() returned an observation for agent {agent!r}, whose {kind} is {of_agent}, but "
                f"the policy {policy_id!r}, which policy_mapping_fn gives it, has {of_policy}: map it to a policy with "
                "its spaces, or give it one of its own"
            )


def are_alike(one: Space[Any], other: Space[Any]) -> bool:
    """Return whether two spaces are equal, or boxes of one shape, whose bounds say nothing of networks."""
    if isinstance(one, spaces.Box) and isinstance(other, spaces.Box):
        return one.shape == other.shape
    return bool(one == other)
