"""All policies with their spaces, which users may leave to the environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kernel_rllib.config.building import env_of, resolved
from kernel_rllib.config.evaluation_setup import EvaluationSetup
from kernel_rllib.config.policy_spec import PolicySpec, as_specs, bound_mapping, default_policy_mapping
from kernel_rllib.config.settings import Origin, Settings
from kernel_rllib.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

ENV_SPACES = "__env__"
"""Under this id the spaces of a runner's environment are among those of its policies."""

Spaces = tuple[Any, Any]


class MultiAgentSetup(EvaluationSetup):
    """Adds what policies are in full."""

    DEFAULT_POLICY_MAPPING_FN = staticmethod(default_policy_mapping)

    def get_multi_agent_setup(
        self,
        *,
        policies: Mapping[str, Any] | Iterable[str] | None = None,
        env: Any = None,
        spaces: Mapping[str, Spaces] | None = None,
        default_policy_class: type | None = None,
    ) -> tuple[dict[str, PolicySpec], Callable[..., bool]]:
        """Return the policies, with nothing left open, and whether each learns.

        Args:
            policies: The policies; None for those of this config.
            env: An environment that spaces are taken from where policies don't say them.
            spaces: (observation space, action space) by policy, and under "__env__" those of the environment.
            default_policy_class: The class of policies that don't name one.

        Returns:
            The policies by id, and a function of an id and, if it wants one, a batch.

        Raises:
            ConfigError: Nothing says what a policy's spaces are; or agents of different spaces share a policy.
        """
        given = as_specs(policies if policies is not None else self.policies)
        if env is None and spaces is None and self.env is not None and not self._says_spaces(given):
            env = env_of(self)
        finder = _SpaceFinder(self, env, spaces or {})
        of_algorithm = getattr(resolved(self.__dict__.get("_algo_class")), "get_default_policy_class", None)
        usual = default_policy_class or (of_algorithm(self) if callable(of_algorithm) else None)
        found: dict[str, PolicySpec] = {}
        for policy, spec in given.items():
            observation, action = finder.spaces_of(policy, spec)
            own = {} if spec.config is None else copy.copy(spec.config)
            found[policy] = PolicySpec(spec.policy_class or usual, observation, action, own)
        return found, self.is_policy_to_train

    def is_policy_to_train(self, policy_id: str, batch: Any = None) -> bool:
        """Return whether a policy learns, from this batch."""
        chosen = self.policies_to_train
        if chosen is None:
            return True
        return bool(chosen(policy_id, batch)) if callable(chosen) else policy_id in chosen

    def policy_of(self, agent_id: Any, episode: Any = None, worker: Any = None) -> str:
        """Return the policy of an agent, by a mapping function of any generation."""
        return str(bound_mapping(self.policy_mapping_fn)(agent_id, episode, worker))

    def get_config_for_module(self, module_id: str) -> Self:
        """Return the config for one of several policies: this one, with what is other for that policy."""
        spec = self.policies.get(module_id)
        own = getattr(spec, "config", None)
        if isinstance(own, Settings):
            own = own.set_values()
        overrides = self.algorithm_config_overrides_per_module.get(module_id)
        if not own and not overrides:
            return self
        made = self.copy(copy_frozen=False)
        made._change(own or {}, Origin(f"policies[{module_id!r}]"))
        made._change(overrides or {}, Origin(f"algorithm_config_overrides_per_module[{module_id!r}]"))
        made._set_frozen(self.is_frozen)
        return made

    def _says_spaces(self, policies: Mapping[str, PolicySpec]) -> bool:
        if self.observation_space is not None and self.action_space is not None:
            return True
        return all(spec.observation_space is not None and spec.action_space is not None for spec in policies.values())


class _SpaceFinder:
    """Looks for the spaces of policies: in the policy, given ones, the environment, the config."""

    def __init__(self, config: MultiAgentSetup, env: Any, spaces: Mapping[str, Spaces]) -> None:
        self._config = config
        self._spaces = spaces
        self._env = env if hasattr(env, "possible_agents") else getattr(env, "unwrapped", env)
        self._whole = tuple(
            getattr(env, f"single_{kind}", None) or _plain(getattr(env, kind, None))
            for kind in ("observation_space", "action_space")
        )
        self._agents = self._spaces_by_agent()

    def spaces_of(self, policy: str, spec: PolicySpec) -> Spaces:
        """Return the spaces of observations and actions of a policy."""
        return (
            self._found(policy, spec.observation_space, 0, "observation_space"),
            self._found(policy, spec.action_space, 1, "action_space"),
        )

    def _found(self, policy: str, own: Any, which: int, kind: str) -> Any:
        if own is not None:
            return own
        candidates = (
            self._spaces[policy][which] if policy in self._spaces else None,
            self._of_agents(policy, which, kind),
            self._whole[which],
            self._spaces[ENV_SPACES][which] if ENV_SPACES in self._spaces else None,
            getattr(self._config, kind),
        )
        found = next((space for space in candidates if space is not None), None)
        if found is None:
            raise ConfigError(
                f"{self._config.title}: nothing says what the {kind} of the policy {policy!r} is; name it in its "
                f"PolicySpec or by environment({kind}=...), or give an environment that has one"
            )
        return found

    def _of_agents(self, policy: str, which: int, kind: str) -> Any:
        """Return the space that agents of a policy have, or all agents where none is known to be of it."""
        spaces = {agent: pair[which] for agent, pair in self._agents.items() if pair[which] is not None}
        if not spaces:
            return None
        first, *others = spaces.values()
        if all(space == first for space in others):
            return first
        found: tuple[Any, Any] | None = None
        for agent, space in spaces.items():
            if self._config.policy_of(agent) != policy:
                continue
            if found is not None and found[1] != space:
                raise ConfigError(
                    f"{self._config.title}: the agents {found[0]!r} and {agent!r} have the same policy {policy!r}, but "
                    f"their {kind}s differ: {found[1]} and {space}; give each a policy of its own by policy_mapping_fn"
                )
            found = found or (agent, space)
        return None if found is None else found[1]

    def _spaces_by_agent(self) -> dict[Any, Spaces]:
        """Return the spaces of each agent of an environment of several, as any generation says them."""
        env = self._env
        agents = (
            getattr(env, "possible_agents", None) or getattr(env, "agents", None) or _call(env, "get_agent_ids") or ()
        )
        by_agent = [_by_agent(env, kind, agents) for kind in ("observation_space", "action_space")]
        return {agent: (by_agent[0].get(agent), by_agent[1].get(agent)) for agent in agents}


def _by_agent(env: Any, kind: str, agents: Iterable[Any]) -> dict[Any, Any]:
    named = getattr(env, f"{kind}s", None)
    if isinstance(named, Mapping):
        return dict(named)
    getter = getattr(env, f"get_{kind}", None)
    return {agent: getter(agent) for agent in agents} if callable(getter) else {}


def _call(env: Any, method: str) -> Any:
    function = getattr(env, method, None)
    return sorted(function(), key=str) if callable(function) else None


def _plain(space: Any) -> Any:
    """Return a space, or None for a method of that name, as environments of PettingZoo have."""
    return None if callable(space) and not hasattr(space, "sample") else space
