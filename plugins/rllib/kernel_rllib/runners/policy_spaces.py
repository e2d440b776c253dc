"""Spaces of agents whose environment has none: those of the policies that act for them, as 0.8.5 had it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gymnasium import Space

from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.registry import EnvMaker
from kernel_rllib.errors import EnvError

PolicyOf = Callable[[Any, Any, Any], Any]
KINDS = ("observation_space", "action_space")


class _ByAgent(Mapping[Any, Space[Any]]):
    """The spaces of agents: a policy is asked for when an agent first appears, and its space kept."""

    def __init__(self, spaces: Mapping[str, Space[Any]], policy_of: PolicyOf, context: EnvContext) -> None:
        self._spaces, self._policy_of, self._context = spaces, policy_of, context
        self._found: dict[Any, Space[Any]] = {}

    def __getitem__(self, agent: Any) -> Space[Any]:
        if agent not in self._found:
            self._found[agent] = self._space_of(agent)
        return self._found[agent]

    def __contains__(self, agent: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._spaces)

    def _space_of(self, agent: Any) -> Space[Any]:
        policy_id = self._policy_of(agent, None, self._context)
        if policy_id not in self._spaces:
            raise EnvError(
                f"policy_mapping_fn returned {policy_id!r} for agent {agent!r}, and there are the policies "
                f"{', '.join(map(repr, self._spaces))}: return the id of one of these"
            )
        return self._spaces[policy_id]


class _WithSpaces:
    """Makes environments, and gives them the spaces that they lack."""

    def __init__(self, maker: EnvMaker, policies: Mapping[str, Any], policy_of: PolicyOf) -> None:
        self._maker, self._policies, self._policy_of = maker, policies, policy_of

    def __call__(self, context: EnvContext) -> Any:
        env = self._maker(context)
        complete_spaces(env, self._policies, self._policy_of, context)
        return env


def complete_spaces(env: Any, policies: Mapping[str, Any], policy_of: PolicyOf, context: EnvContext) -> None:
    """Give an environment the spaces that it lacks: those of the policies of its agents; see `with_policy_spaces`."""
    for kind in KINDS:
        if getattr(env, kind, None) is None and not getattr(env, f"{kind}s", None):
            spaces = {policy_id: getattr(policy, kind) for policy_id, policy in policies.items()}
            setattr(env, f"{kind}s", _ByAgent(spaces, policy_of, context))


def with_policy_spaces(maker: EnvMaker, policies: Mapping[str, Any], policy_of: PolicyOf) -> EnvMaker:
    """Return a maker whose environments have, where they say nothing of their own, the spaces of agents' policies.

    Args:
        maker: Makes environments with several agents.
        policies: The policies, or objects with `observation_space` and `action_space`, by id.
        policy_of: Returns the policy's id, given an agent, None for its episode, and the context of its environment.
    """
    return EnvMaker(maker.name, _WithSpaces(maker, policies, policy_of))
