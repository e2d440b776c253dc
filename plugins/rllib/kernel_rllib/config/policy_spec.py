"""The specification of one policy of several: its class, its spaces, and its own settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kernel_rllib.errors import ConfigError

DEFAULT_POLICY_ID = "default_policy"
"""The id of the policy where there is one only."""

_FORBIDDEN = re.compile(r'[<>:"/|?*\\]|[. \\]$')


class PolicySpec:
    """Describes a policy of the user's. The algorithm or the environment decides each field that is None."""

    __slots__ = ("action_space", "config", "observation_space", "policy_class")

    def __init__(
        self, policy_class: Any = None, observation_space: Any = None, action_space: Any = None, config: Any = None
    ) -> None:
        """Describe a policy.

        Args:
            policy_class: The class, as in policies of older generations; None for the algorithm's.
            observation_space: The space of its observations; None to take it from the environment.
            action_space: The space of its actions; None likewise.
            config: A dict, or a config, of settings that are others for this policy.
        """
        self.policy_class = policy_class
        self.observation_space = observation_space
        self.action_space = action_space
        self.config = config

    def __iter__(self) -> Iterator[Any]:
        yield from (self.policy_class, self.observation_space, self.action_space, self.config)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PolicySpec):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name = getattr(self.policy_class, "__name__", self.policy_class)
        return f"PolicySpec({name}, {self.observation_space}, {self.action_space}, {self.config})"


def as_specs(policies: Any) -> Any:
    """Return policies as people write them (ids in a list or a set, or a dict of specs or 4-tuples) as a dict of specs.

    Other values are returned as they are, for a check to refuse.
    """
    if isinstance(policies, (set, frozenset)):
        policies = sorted(policies, key=str)  # Sorted, so that every process has the same order.
    if isinstance(policies, (list, tuple)):
        return {policy: PolicySpec() for policy in policies}
    if isinstance(policies, Mapping):
        made = {policy: _as_spec(spec) for policy, spec in policies.items()}
        return made or {DEFAULT_POLICY_ID: PolicySpec()}
    return {DEFAULT_POLICY_ID: PolicySpec()} if policies is None else policies


def _as_spec(spec: Any) -> Any:
    if spec is None:
        return PolicySpec()
    return PolicySpec(*spec) if isinstance(spec, (tuple, list)) and len(spec) == 4 else spec


def as_tuples(policies: Any) -> Any:
    """Return a dict of specs as one of 4-tuples: what it is in dicts, so that searches find what is inside."""
    if not isinstance(policies, Mapping):
        return policies
    return {policy: tuple(spec) if isinstance(spec, PolicySpec) else spec for policy, spec in policies.items()}


def policies_problem(policies: Mapping[Any, Any]) -> str | None:
    """Return what is wrong with a dict of specs, or None."""
    for policy, spec in policies.items():
        problem = id_problem(policy)
        if problem:
            return problem
        if not isinstance(spec, PolicySpec):
            return (
                f"{policy!r} must have a PolicySpec or (class, observation space, action space, config), not {spec!r}"
            )
        if spec.config is not None and not hasattr(spec.config, "keys"):
            return f"the config of {policy!r} must be a dict or a config, not {spec.config!r}"
    return None


def id_problem(policy: Any) -> str | None:
    """Return what is wrong with the id of a policy, which is the name of a directory in checkpoints, or None."""
    if isinstance(policy, str) and policy and not _FORBIDDEN.search(policy):
        return None
    return (
        f'{policy!r} is no id of a policy: it must be text without any of <>:"/\\|?*, and not end with a dot or a space'
    )


def default_policy_mapping(agent_id: Any, episode: Any = None, worker: Any = None, **more: Any) -> str:
    """Return the policy of any agent: the only one."""
    return DEFAULT_POLICY_ID


class PolicyOfEachAgent:
    """Maps agents to policies by a dict, for files, which have no functions."""

    def __init__(self, policies: Mapping[Any, str]) -> None:
        """Map each agent to its policy."""
        self.policies: dict[Any, str] = dict(policies)

    def __call__(self, agent_id: Any) -> str:
        """Return the policy of an agent. Raises ConfigError for one that the dict does not have."""
        if agent_id not in self.policies:
            raise ConfigError(
                f"policy_mapping_fn is a dict without agent {agent_id!r}: it has "
                f"{', '.join(map(repr, self.policies))}. Add it, or give a function"
            )
        return self.policies[agent_id]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PolicyOfEachAgent) and other.policies == self.policies

    def __hash__(self) -> int:
        return hash(tuple(self.policies.items()))


def as_mapping(value: Any) -> Any:
    """Return a mapping function: a function as it is, one of a dict, and that of the only policy for None."""
    if value is None:
        return default_policy_mapping
    return PolicyOfEachAgent(value) if isinstance(value, Mapping) else value


def bound_mapping(function: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    """Return a mapping function of any generation as one of (agent id, episode, worker).

    In 0.8.5 it takes the agent's id, in 2.x also the episode and `worker=`, today the id and the episode.
    """
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function in C that has no signature
        return lambda agent_id, episode, worker: function(agent_id)
    kinds = {parameter.kind for parameter in parameters}
    takes_any = inspect.Parameter.VAR_POSITIONAL in kinds
    by_place = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)
    by_name = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    takes_names = inspect.Parameter.VAR_KEYWORD in kinds

    def mapped(agent_id: Any, episode: Any, worker: Any) -> Any:
        values = (agent_id, episode, worker)[: 2 if takes_any and by_place < 2 else by_place]
        named = {"episode": episode} if len(values) < 2 and ("episode" in by_name or takes_names) else {}
        if len(values) < 3 and ("worker" in by_name or takes_names):
            named["worker"] = worker
        return function(*values, **named)

    return mapped
