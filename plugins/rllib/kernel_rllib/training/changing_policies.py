"""Policies that come and go between iterations, under the names of all generations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID, PolicySpec, default_policy_mapping, id_problem
from kernel_rllib.config.sentinels import is_deprecated_value
from kernel_rllib.config.settings import Settings
from kernel_rllib.connectors.pipeline import FILTER
from kernel_rllib.connectors.policy_statistics import named_for, of_policy
from kernel_rllib.errors import ConfigError, UnknownPolicyError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.policy.view import PolicyView
from kernel_rllib.training.multi_agent import require_agents_with_spaces
from kernel_rllib.training.several_policies import SeveralPolicies

Mapped = Callable[..., str]
ToTrain = Collection[str] | Callable[..., bool]


@dataclass(frozen=True)
class CopiedPolicy:
    """Makes copies of an object that is a policy: in each runner one.

    Attributes:
        policy: The object.
    """

    policy: Any

    @property
    def __name__(self) -> str:
        return type(self.policy).__name__

    def __call__(self, *_: Any) -> Any:
        """Return a copy."""
        return copy.deepcopy(self.policy)

    def compute_actions(self, *arguments: Any, **named: Any) -> Any:
        """Return what the object does."""
        return self.policy.compute_actions(*arguments, **named)


class ChangingPolicies(SeveralPolicies):
    """Adds, removes and replaces policies of an algorithm while it trains."""

    # -- policies -----------------------------------------------------------------------------------------------------

    def add_policy(
        self,
        policy_id: str,
        policy_cls: Any = None,
        policy: Any = None,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        policy_state: Mapping[str, Any] | None = None,
        policy_mapping_fn: Mapped | None = None,
        policies_to_train: ToTrain | None = None,
        evaluation_workers: bool = True,
        module_spec: Any = None,
        module_state: Mapping[str, Array] | None = None,
        add_to_learners: bool = True,
        add_to_env_runners: bool = True,
        add_to_eval_env_runners: bool = True,
        workers: Any = None,
    ) -> Any:
        """Let there be one more policy, here and in all runners, and return it. Checkpoints have it from now on.

        Args:
            policy_id: Its id; as the name of a directory in checkpoints it has none of `<>:"/\\|?*`.
            policy_cls: Its class: None, or that of another policy of this algorithm, for one that can learn; a class of
                one's own acts and does not learn.
            policy: A policy to begin as, in place of a class: of one of this algorithm's the parameters are taken over;
                of an object of one's own each runner has a copy.
            observation_space: The space of its observations; None for that of the agents.
            action_space: The space of its actions; None for that of the agents.
            config: The settings in which it differs from the algorithm.
            policy_state: The state that it begins with, as `get_state()` of such a policy returned it.
            policy_mapping_fn: The function that returns the policy of an agent, from the next episodes on; None leaves
                it as it is. Episodes that are going on keep their policies.
            policies_to_train: The policies that learn from now on; None leaves them as they are.
            evaluation_workers: True if evaluations have the same mapping.
            module_spec: An `RLModuleSpec` that says which module it has; None for the algorithm's.
            module_state: The parameters that it begins with, by name.
            add_to_learners: True: a policy that can learn has a learner.
            add_to_env_runners: True: all runners have all policies.
            add_to_eval_env_runners: The same as `evaluation_workers`.
            workers: None: all workers have all policies.

        Returns:
            The policy, as `get_policy(policy_id)` does.

        Raises:
            ConfigError: If there is one of this id, spaces are those of no agent, or what is given can't be honoured.
            ModuleError: If parameters are those of another module.
        """
        self._require_several_agents("add_policy")
        _require_all_places(add_to_learners=add_to_learners, add_to_env_runners=add_to_env_runners, workers=workers)
        self._require_free(policy_id)
        spec = _spec_of(policy_cls, policy, observation_space, action_space, _own_settings(config, module_spec))
        weights = _weights_of(policy, policy_state, module_state)
        if spec.policy_class is not None and weights is not None:
            raise ConfigError(
                f"add_policy({policy_id!r}): policy_state is for policies that learn, and this one is of a class of "
                "its own: give what it begins with by config={...}, or an object by policy=..."
            )
        before = self._settings
        changed = before.copy(copy_frozen=False)
        changed.multi_agent(policies={**before.policies, policy_id: spec})
        everywhere = evaluation_workers and add_to_eval_env_runners
        self._set_who(changed, policy_mapping_fn, policies_to_train, in_evaluations=everywhere)
        require_agents_with_spaces(changed, policy_id, spec)
        self.take_policies_of(changed)
        try:
            if weights is not None:
                self.get_policy(policy_id).set_weights(weights)
        except Exception:
            self.take_policies_of(before)
            raise
        if isinstance(policy, PolicyView):
            self._filter_as(policy_id, policy)
        return self.get_policy(policy_id)

    def remove_policy(
        self,
        policy_id: str = DEFAULT_POLICY_ID,
        *,
        policy_mapping_fn: Mapped | None = None,
        policies_to_train: ToTrain | None = None,
        evaluation_workers: bool = True,
        remove_from_learners: bool = True,
        remove_from_env_runners: bool = True,
        remove_from_eval_env_runners: bool = True,
    ) -> None:
        """Let a policy be no more, here and in all runners.

        Episodes that are going on keep it, as they keep their mapping: it acts there until they are over, by the
        parameters that it had last, and no policy learns from its steps.

        Args:
            policy_id: Its id.
            policy_mapping_fn: The function that returns the policy of an agent from now on; None leaves it as it is.
            policies_to_train: The policies that learn from now on; None for those that did, without this one.
            evaluation_workers: True: it is gone in all runners.
            remove_from_learners: True, likewise.
            remove_from_env_runners: True, likewise.
            remove_from_eval_env_runners: True, likewise.

        Raises:
            UnknownPolicyError: If there is none of this id. A mapping that still names it is an error of the next
                episode.
            ConfigError: If it is the last one that can learn, or what is given can't be honoured.
        """
        self._require_several_agents("remove_policy")
        _require_all_places(
            evaluation_workers=evaluation_workers,
            remove_from_learners=remove_from_learners,
            remove_from_env_runners=remove_from_env_runners,
            remove_from_eval_env_runners=remove_from_eval_env_runners,
        )
        there = [*self.policies, *self.scripted]
        if policy_id not in there:
            raise UnknownPolicyError(
                f"there is no policy {policy_id!r} to remove{did_you_mean(str(policy_id), there)}; there are "
                f"{', '.join(there)}"
            )
        if [*self.policies] == [policy_id]:
            raise ConfigError(
                f"the policy {policy_id!r} is the last one that can learn, and can't be removed: add another one first"
            )
        before = self._settings
        if policy_mapping_fn is None and before.policy_mapping_fn is default_policy_mapping:
            raise ConfigError(
                f"remove_policy({policy_id!r}): all agents have the policy {DEFAULT_POLICY_ID!r}, as no "
                "policy_mapping_fn was ever given: give one that names the others"
            )
        changed = before.copy(copy_frozen=False)
        chosen = before.policies_to_train
        if policies_to_train is None and chosen is not None and not callable(chosen):
            policies_to_train = [name for name in chosen if name != policy_id]
        changed.multi_agent(policies={name: spec for name, spec in before.policies.items() if name != policy_id})
        self._set_who(changed, policy_mapping_fn, policies_to_train, in_evaluations=True)
        self.take_policies_of(changed)

    # -- the same under today's names ---------------------------------------------------------------------------------

    def add_module(
        self,
        module_id: str,
        module_spec: Any,
        *,
        config_overrides: Mapping[str, Any] | None = None,
        new_agent_to_module_mapping_fn: Mapped | None = None,
        new_should_module_be_updated: ToTrain | None = None,
        add_to_learners: bool = True,
        add_to_env_runners: bool = True,
        add_to_eval_env_runners: bool = True,
    ) -> Any:
        """Let there be one more module, and return its policy; see `add_policy`."""
        return self.add_policy(
            module_id,
            config=config_overrides,
            observation_space=getattr(module_spec, "observation_space", None),
            action_space=getattr(module_spec, "action_space", None),
            policy_mapping_fn=new_agent_to_module_mapping_fn,
            policies_to_train=new_should_module_be_updated,
            module_spec=module_spec,
            add_to_learners=add_to_learners,
            add_to_env_runners=add_to_env_runners,
            add_to_eval_env_runners=add_to_eval_env_runners,
        )

    def remove_module(
        self,
        module_id: str,
        *,
        new_agent_to_module_mapping_fn: Mapped | None = None,
        new_should_module_be_updated: ToTrain | None = None,
        remove_from_learners: bool = True,
        remove_from_env_runners: bool = True,
        remove_from_eval_env_runners: bool = True,
    ) -> None:
        """Let a module be no more; see `remove_policy`."""
        self.remove_policy(
            module_id,
            policy_mapping_fn=new_agent_to_module_mapping_fn,
            policies_to_train=new_should_module_be_updated,
            remove_from_learners=remove_from_learners,
            remove_from_env_runners=remove_from_env_runners,
            remove_from_eval_env_runners=remove_from_eval_env_runners,
        )

    # -- inside -------------------------------------------------------------------------------------------------------

    def _set_who(
        self, changed: AlgorithmConfig, mapping: Mapped | None, to_train: ToTrain | None, *, in_evaluations: bool
    ) -> None:
        """Set agents' policies, and which policies learn; without `in_evaluations` the mapping stays as it is there."""
        if to_train is not None:
            changed.multi_agent(policies_to_train=to_train)  # type: ignore[arg-type]
        if mapping is None:
            return
        there = self.mapping_of_evaluations()
        changed.multi_agent(policy_mapping_fn=mapping)
        wanted, given = mapping if in_evaluations else there, changed.evaluation_config
        if isinstance(given, Settings):
            given.policy_mapping_fn = wanted  # type: ignore[attr-defined]
        elif not in_evaluations or {"policy_mapping_fn", "multiagent"} & (given or {}).keys():
            changed.evaluation(evaluation_config={"policy_mapping_fn": wanted})

    def _filter_as(self, policy_id: str, policy: PolicyView) -> None:
        """Let the filter of a policy have learned what that of another one has, if it is one of this algorithm."""
        for name in self.policies:
            found = of_policy(self.runners.statistics, name)
            if found and self.get_policy(name) is policy:
                self.runners.set_statistics({**self.runners.statistics, **named_for(policy_id, found[FILTER])})

    def _require_several_agents(self, method: str) -> None:
        if not self.has_several_agents:
            raise ConfigError(
                f"{method} is for environments with several agents, and {self.config.title} has one of one agent: "
                "derive the environment from MultiAgentEnv, or build another algorithm"
            )

    def _require_free(self, policy_id: str) -> None:
        problem = id_problem(policy_id)
        if problem is not None:
            raise ConfigError(f"add_policy: {problem}")
        if policy_id in self.policies or policy_id in self.scripted:
            raise ConfigError(
                f"there is a policy {policy_id!r} already: take another id, call remove_policy({policy_id!r}) first, "
                f"or change it by set_weights({{{policy_id!r}: ...}})"
            )


def _spec_of(policy_cls: Any, policy: Any, observation_space: Any, action_space: Any, own: Any) -> PolicySpec:
    """Return what a policy is that is added."""
    if policy is not None and policy_cls is not None:
        raise ConfigError("add_policy was given a policy and a policy_cls: give one of them")
    observation_space = observation_space or getattr(policy, "observation_space", None)
    action_space = action_space or getattr(policy, "action_space", None)
    if isinstance(policy_cls, type) and issubclass(policy_cls, PolicyView):
        policy_cls = None
    if policy is not None and not isinstance(policy, PolicyView):
        if not callable(getattr(policy, "compute_actions", None)):
            raise ConfigError(
                f"add_policy was given {policy!r} as policy, which has no compute_actions(obs_batch, ...): give what "
                "get_policy() returned, or an object that has it"
            )
        policy_cls = CopiedPolicy(policy)
    return PolicySpec(policy_cls, observation_space, action_space, own)


def _own_settings(config: AlgorithmConfig | Mapping[str, Any] | None, module_spec: Any) -> dict[str, Any] | None:
    """Return the settings that are others for a policy that is added."""
    own = dict(config.set_values() if isinstance(config, Settings) else config or {})
    if module_spec is not None and getattr(module_spec, "module_class", None) is not None:
        own["rl_module_spec"] = module_spec
    return own or None


def _weights_of(
    policy: Any, state: Mapping[str, Any] | None, module_state: Mapping[str, Array] | None
) -> Mapping[str, Array] | None:
    """Return the given initial parameters of a policy; None for its own."""
    if module_state is not None:
        return module_state
    if state is not None:
        found: Mapping[str, Array] = state.get("weights", state)
        return found
    return policy.get_weights() if isinstance(policy, PolicyView) else None


def _require_all_places(workers: Any = None, **places: bool) -> None:
    """Raise ConfigError where a policy is to be in some places only."""
    if workers is not None and not is_deprecated_value(workers):
        raise ConfigError(
            "add_policy(workers=[...]) can't be honoured: all workers have the policies of the learner. Leave it out, "
            "and say by policy_mapping_fn(agent_id, episode, worker), with worker.worker_index, where it acts"
        )
    for name, wanted in places.items():
        if not wanted and not is_deprecated_value(wanted):
            raise ConfigError(
                f"{name}=False can't be honoured: a policy is with the learner and in all runners, or nowhere. Leave "
                "it out, and say by policy_mapping_fn and policies_to_train where it acts and whether it learns"
            )
