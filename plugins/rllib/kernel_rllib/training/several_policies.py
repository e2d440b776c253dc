"""The policies of an algorithm in an environment with several agents: how they begin, and how others replace them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.config.settings import Settings
from kernel_rllib.connectors.policy_statistics import of_policies
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.group import LearnerGroup
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint, change_policies
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint
from kernel_rllib.training.access import PolicyAccess
from kernel_rllib.training.curriculum import Curriculum
from kernel_rllib.training.evaluating import Evaluations
from kernel_rllib.training.honoured import refuse_what_has_no_effect
from kernel_rllib.training.multi_agent import (
    multi_agent_blueprint_of,
    policies_of,
    scripted_policies_of,
    spaces_of_policy,
)
from kernel_rllib.training.parts import blueprint_of
from kernel_rllib.training.policy_learning import PolicyLearning


class SeveralPolicies(PolicyAccess, PolicyLearning):
    """Holds the policies of an algorithm that learn, and those that only act, by their ids."""

    _settings: AlgorithmConfig
    blueprint: Blueprint | MultiAgentBlueprint
    curriculum: Curriculum | None
    evaluations: Evaluations
    has_several_agents: bool
    learners: LearnerGroup
    policies: dict[str, PolicyLearning]
    runners: RunnerGroup
    scripted: dict[str, ScriptedBlueprint]

    @property
    @abstractmethod
    def learns_several(self) -> bool:
        """Whether the algorithm can train several policies."""

    def make_blueprint(
        self, config: AlgorithmConfig, seed: int, *, evaluates: bool = False
    ) -> Blueprint | MultiAgentBlueprint:
        """Return the blueprint of the runners' samplers, by settings of training or of evaluation."""
        if not self.has_several_agents:
            return blueprint_of(config, self.policy_blueprint(config, evaluates=evaluates), seed)
        made: dict[str, PolicyBlueprint | ScriptedBlueprint] = dict(self.scripted)
        for policy_id, policy in self.policies.items():
            made[policy_id] = policy.policy_blueprint(config.get_config_for_module(policy_id), evaluates=evaluates)
        return multi_agent_blueprint_of(config, made, seed)

    def shared_state(self) -> dict[str, Any]:
        """Return what policies have together to be kept, as `checkpoints.tree` takes it: by default nothing."""
        return {}

    def set_shared_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `shared_state` returned."""

    # -- policies -----------------------------------------------------------------------------------------------------

    def begin_policies(self, specs: Mapping[str, PolicySpec]) -> None:
        """Make the policies that learn, where there are several agents.

        Raises:
            ConfigError: If no policy can learn, or there are several and the algorithm learns one only.
        """
        self.scripted = scripted_policies_of(self.config, specs)
        learned = self._learned_of(specs, self.scripted)
        for policy_id, spec in learned.items():
            own = self.config.get_config_for_module(policy_id)
            refuse_what_has_no_effect(own, self.settings_acted_on(), self.without)
            if len(learned) == 1:
                self.policies[policy_id] = self
                self.begin_learning(policy_id, own, spaces_of_policy(spec))
            else:
                self.policies[policy_id] = self.for_policy(policy_id, own, spaces_of_policy(spec))

    def _learned_of(
        self, specs: Mapping[str, PolicySpec], scripted: Mapping[str, ScriptedBlueprint]
    ) -> dict[str, PolicySpec]:
        """Return the policies that can learn. Raises ConfigError if there are none, or more than the algorithm can."""
        learned = {policy_id: spec for policy_id, spec in specs.items() if policy_id not in scripted}
        if not learned:
            raise ConfigError(
                f"{self.config.title}: all policies have a class of their own, and none is left to learn: give one of "
                f"{', '.join(specs)} a PolicySpec without a class"
            )
        if len(learned) > 1 and not self.learns_several:
            raise ConfigError(
                f"{self.config.title} learns one policy, and {', '.join(learned)} are named: take PPO, DQN or SAC, or "
                "map all agents to one policy"
            )
        return learned

    @property
    def is_its_only_policy(self) -> bool:
        """Whether the algorithm itself is the only policy that learns."""
        return len(self.policies) == 1 and self in self.policies.values()

    def take_policies_of(self, config: AlgorithmConfig) -> None:
        """Have the policies that other settings name, with the mapping and those to train that they say.

        Policies that there are stay as they are. All else of the settings is to be as it is. Episodes that are going on
        keep the policies and the mapping that they began with.

        Raises:
            ConfigError: If the settings can't be. Nothing has changed then.
        """
        config.validate()
        if config.input_ != "sampler":
            raise ConfigError(
                f"{config.title}: policies can't be added or taken away where experience is recorded (input_ is set): "
                "name all of them in multi_agent(policies=...)"
            )
        specs = policies_of(config)
        assert specs is not None
        scripted = scripted_policies_of(config, specs)
        learned = self._learned_of(specs, scripted)
        config.freeze()
        before = self.policies, self.scripted, self._settings, self.config
        made: dict[str, PolicyLearning] = {}
        for policy_id, spec in learned.items():
            made[policy_id] = self.policies.get(policy_id) or self._added(config, policy_id, spec)
        self._have(made, scripted, config, config if self not in made.values() else None)
        try:
            blueprint = self.make_blueprint(config, self.seed)
            if self.curriculum is not None:
                blueprint = self.curriculum.in_envs(blueprint)
            self.runners.change(blueprint, change_policies)
        except Exception:
            self._have(*before)
            self.runners.change(self.blueprint, change_policies)
            self.broadcast()
            raise
        self.blueprint = blueprint
        self.runners.set_statistics(of_policies(self.runners.statistics, made))
        self.evaluations.change_policies(config)
        self.forget_views(made.keys() | scripted.keys())
        if self not in made.values():
            self.__dict__.pop("_learner", None)
        self.broadcast()

    def _added(self, config: AlgorithmConfig, policy_id: str, spec: PolicySpec) -> PolicyLearning:
        own = config.get_config_for_module(policy_id)
        refuse_what_has_no_effect(own, self.settings_acted_on(), self.without)
        return self.for_policy(policy_id, own, spaces_of_policy(spec))

    def _have(
        self,
        policies: dict[str, PolicyLearning],
        scripted: dict[str, ScriptedBlueprint],
        settings: AlgorithmConfig,
        own: AlgorithmConfig | None,
    ) -> None:
        """Have these policies, by these settings; `own` are those of the algorithm itself, None for its policy's."""
        self.policies, self.scripted, self._settings = policies, scripted, settings
        self.config = settings.get_config_for_module(self.module_id) if own is None else own
        self.learners.replace({policy_id: policy.learner for policy_id, policy in policies.items()})

    def mapping_of_evaluations(self) -> Callable[..., str]:
        """Return the mapping function of the runners that evaluate."""
        return self.evaluations.config.policy_mapping_fn

    def meet_policies(self, saved: AlgorithmConfig) -> None:
        """Have the policies of saved settings, with their mapping, where these are others than there are."""
        if not self.has_several_agents or saved.policies.keys() == self._settings.policies.keys():
            return
        changed = self._settings.copy(copy_frozen=False)
        changed.multi_agent(
            policies=saved.policies,
            policy_mapping_fn=saved.policy_mapping_fn,
            policies_to_train=saved.policies_to_train,
        )
        set_mapping_of_evaluations(changed, saved.get_evaluation_config_object())
        self.take_policies_of(changed)


def set_mapping_of_evaluations(changed: AlgorithmConfig, evaluation: AlgorithmConfig | None) -> None:
    """Let evaluations have the mapping that the settings of others have."""
    if evaluation is None or evaluation.policy_mapping_fn is changed.policy_mapping_fn:
        return
    given: Any = changed.evaluation_config
    if isinstance(given, Settings):
        given.policy_mapping_fn = evaluation.policy_mapping_fn  # type: ignore[attr-defined]
    else:
        changed.evaluation(evaluation_config={"policy_mapping_fn": evaluation.policy_mapping_fn})
