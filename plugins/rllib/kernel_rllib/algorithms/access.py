"""How users reach what an algorithm has learned: actions, policies, weights and workers, under all names they had."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernel_rllib.algorithms.policy_learning import PolicyLearning
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import SpaceError, UnknownPolicyError
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.nn import philox
from kernel_rllib.policy.inference import Inference
from kernel_rllib.policy.parameters import LearnerParameters
from kernel_rllib.policy.scripted_inference import ScriptedInference
from kernel_rllib.policy.view import PolicyView
from kernel_rllib.policy.worker_settings import PolicySettings, WorkerSettings
from kernel_rllib.policy.workers import WorkerSet, WorkerView
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.multi_agent_sampler import MultiAgentSampler
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint, ScriptedLanes

if TYPE_CHECKING:
    from kernel_rllib.modules.module import Module


class PolicyAccess:
    """What an algorithm is asked between iterations, and after them."""

    config: AlgorithmConfig
    policies: dict[str, PolicyLearning]
    scripted: dict[str, ScriptedBlueprint]
    runners: RunnerGroup
    blueprint: Blueprint | MultiAgentBlueprint
    env_steps_sampled: int
    has_several_agents: bool
    seed: int

    # -- acting -------------------------------------------------------------------------------------------------------

    def compute_single_action(
        self,
        observation: Any,
        state: Sequence[Any] | None = None,
        *,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
        **further: Any,
    ) -> Any:
        """Return the action for one observation of the environment.

        Args:
            observation: As the environment returns it; a list of the last ones of the episode, the oldest first, where
                the policy acts on several.
            state: What a recurrent policy remembers, as `get_policy().get_initial_state()` returns it at first.
            prev_action, prev_reward: The step before, for policies that look at it; None where an episode begins.
            info: Accepted; no built-in model asks for it.
            policy_id: Which policy acts.
            full_fetch: Whether to return all that the policy gave.
            explore: Whether it is drawn, as while training; None for what the config says.
            further: Accepted, as older programs pass more.

        Returns:
            The action; with `full_fetch`, or where a state is given, the action, the state after it, and a dict of
            what else the policy gave.
        """
        policy_id = self._known_policy(policy_id)
        explore = bool(self.config.explore) if explore is None else explore
        names = self._state_names(policy_id, state)
        given = {name: np.asarray(value)[None] for name, value in zip(names, state or [], strict=False)}
        previous = None if prev_action is None else ([prev_action], [prev_reward or 0.0])
        actions, outputs = self.inference_of(policy_id).actions(
            [observation], explore=explore, timestep=self.env_steps_sampled, state=given or None, previous=previous
        )
        if not full_fetch and not state:
            return actions[0]
        remembered = [value[0] for value in outputs.get(columns.STATE_OUT, {}).values()]
        rest = {name: value[0] for name, value in outputs.items() if name != columns.STATE_OUT}
        return actions[0], remembered, rest

    def compute_action(
        self,
        observation: Any,
        state: Sequence[Any] | None = None,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
    ) -> Any:
        """Return the action for one observation: what `compute_single_action` returns."""
        return self.compute_single_action(
            observation,
            state,
            prev_action=prev_action,
            prev_reward=prev_reward,
            policy_id=policy_id,
            full_fetch=full_fetch,
            explore=explore,
        )

    def compute_actions(
        self,
        observations: Mapping[Any, Any] | Sequence[Any],
        state: Mapping[Any, Sequence[Any]] | None = None,
        *,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
        **further: Any,
    ) -> Any:
        """Return an action for each of several observations, in one forward pass.

        Args:
            observations: By any keys, or a sequence. Of several policies, by agent: each acts for its agents.
            state: What a recurrent policy remembers, by the same keys.
            policy_id: Which policy acts.
            full_fetch: Whether to return all that the policy gave.
            explore: Whether actions are drawn, as while training; None for what the config says.
            further: Accepted, as older programs pass more.

        Returns:
            Actions by the same keys, or a list; with `full_fetch`, or where a state is given, these, the states after
            them by the same keys, and a dict of arrays [N, ...] of what else the policy gave.
        """
        keyed = observations if isinstance(observations, Mapping) else dict(enumerate(observations))
        several = len(self.policies) + len(self.scripted) > 1
        if policy_id == DEFAULT_POLICY_ID and several and isinstance(observations, Mapping):
            return self._by_policies(keyed, state, full_fetch=full_fetch, explore=explore)
        policy_id = self._known_policy(policy_id)
        explore = bool(self.config.explore) if explore is None else explore
        actions, outputs = self.inference_of(policy_id).actions(
            list(keyed.values()),
            explore=explore,
            timestep=self.env_steps_sampled,
            state=self._stacked(policy_id, keyed, state),
        )
        chosen = dict(zip(keyed, actions, strict=True)) if keyed is observations else actions
        if not full_fetch and not state:
            return chosen
        after = list(outputs.get(columns.STATE_OUT, {}).values())
        states = {key: [value[row] for value in after] for row, key in enumerate(keyed)}
        return chosen, states, {name: value for name, value in outputs.items() if name != columns.STATE_OUT}

    # -- policies and weights -----------------------------------------------------------------------------------------

    def get_policy(self, policy_id: str = DEFAULT_POLICY_ID) -> Any:
        """Return a policy. Raises UnknownPolicyError, a KeyError, if there is none of that id."""
        policy_id = self._known_policy(policy_id)
        return self.workers.local_worker().get_policy(policy_id)

    def get_module(self, module_id: str = DEFAULT_POLICY_ID) -> Module:
        """Return the module of a policy. Raises UnknownPolicyError if there is none, or it has no module."""
        module: Module = self._with_module(self._known_policy(module_id)).learner.module
        return module

    @property
    def workers(self) -> WorkerSet:
        """The workers: runners with their policies."""
        if not hasattr(self, "_workers"):
            settings = self.worker_settings(self.blueprint, self.config, self.runners)
            self._workers = WorkerSet(settings, self.runners, self._policies)
        return self._workers

    @property
    def env_runner_group(self) -> WorkerSet:
        """The workers, by today's name."""
        return self.workers

    @property
    def env_runner(self) -> WorkerView:
        """The worker beside the learner."""
        return self.workers.local_worker()

    def worker_settings(
        self, blueprint: Blueprint | MultiAgentBlueprint, config: AlgorithmConfig, runners: RunnerGroup
    ) -> WorkerSettings:
        """Return what is known of the workers of a group: those that train, or those that evaluate."""
        indices = [0, *(index for index, _ in runners.actors())]
        return WorkerSettings(
            blueprint,
            {name: PolicySettings(each.distribution, each.config.to_dict()) for name, each in self.policies.items()},
            config.to_dict(),
            {index: config.get_rollout_fragment_length(index) for index in indices},
            policies_to_train=config.policies_to_train,
        )

    @property
    def inference(self) -> Inference:
        """What acts outside of runners, by the only policy."""
        return self._inference_by_module(self._known_policy(DEFAULT_POLICY_ID))

    def inference_of(self, policy_id: str) -> Inference | ScriptedInference:
        """Return what acts outside of runners, by a policy."""
        if policy_id not in self.scripted:
            return self._inference_by_module(policy_id)
        made: dict[str, ScriptedInference] = self.__dict__.setdefault("_scripted_inferences", {})
        if policy_id not in made:
            stream = philox.stream(self.seed, policy_id, "inference")
            made[policy_id] = ScriptedInference(self._scripted_object(policy_id), self.scripted[policy_id], stream)
        return made[policy_id]

    def _inference_by_module(self, policy_id: str) -> Inference:
        made: dict[str, Inference] = self.__dict__.setdefault("_inferences", {})
        if policy_id not in made:
            policy = self._with_module(policy_id)
            made[policy_id] = Inference.of_blueprint(
                policy.policy_blueprint(policy.config),
                LearnerParameters(policy.learner, self.broadcast),
                policy.stream("inference"),
                lambda: self.runners.statistics,
            )
        return made[policy_id]

    def _policies(self) -> Mapping[str, Any]:
        views: dict[str, PolicyView] = self.__dict__.setdefault("_views", {})
        for policy_id, policy in self.policies.items():
            if policy_id not in views:
                views[policy_id] = self._view(policy_id, policy)
        views = {policy_id: views[policy_id] for policy_id in self.policies}
        return {**views, **{policy_id: self._scripted_object(policy_id) for policy_id in self.scripted}}

    def forget_views(self, there: Collection[str]) -> None:
        """Make workers anew when they are asked for, and drop views of policies that are not there any more."""
        self.__dict__.pop("_workers", None)
        for name in ("_inferences", "_scripted_inferences", "_views", "_scripted_objects"):
            made = self.__dict__.get(name, {})
            for policy_id in made.keys() - set(there):
                del made[policy_id]

    def _scripted_object(self, policy_id: str) -> Any:
        """Return a policy of the user's own class: the one that acts, where lanes are here."""
        if self.runners.local is not None:
            lanes = cast(MultiAgentSampler, self.runners.local.sampler).modules[policy_id]
            return cast(ScriptedLanes, lanes).object
        made: dict[str, Any] = self.__dict__.setdefault("_scripted_objects", {})
        if policy_id not in made:
            made[policy_id] = self.scripted[policy_id].made()
        return made[policy_id]

    def _view(self, policy_id: str, policy: PolicyLearning) -> PolicyView:
        def learn(batch: Batch) -> Metrics:
            metrics = policy.update(batch)
            self.broadcast()
            return metrics

        return PolicyView(
            LearnerParameters(policy.learner, self.broadcast),
            self._inference_by_module(policy_id),
            observation_space=policy.spaces.observation,
            action_space=policy.spaces.action,
            distribution=policy.distribution,
            stream=policy.stream("policy"),
            config=policy.config.to_dict(),
            learn=learn,
            timestep=lambda: self.env_steps_sampled,
        )

    def _known_policy(self, policy_id: str) -> str:
        """Return the id of a policy; the default one stands for the only one that learns.

        Raises:
            UnknownPolicyError: If there is none of that id.
        """
        if policy_id == DEFAULT_POLICY_ID and len(self.policies) == 1:
            return next(iter(self.policies))
        there = [*self.policies, *self.scripted]
        if policy_id not in there:
            raise UnknownPolicyError(
                f"there is no policy {policy_id!r}{did_you_mean(policy_id, there)}; there are {', '.join(there)}"
            )
        return policy_id

    def _with_module(self, policy_id: str) -> PolicyLearning:
        """Return a policy that has a module and a learner. Raises UnknownPolicyError if it is of the user's class."""
        if policy_id in self.scripted:
            name = getattr(self.scripted[policy_id].make, "__name__", "")
            raise UnknownPolicyError(
                f"the policy {policy_id!r} is of a class of its own, {name}, and has no module: ask it itself, "
                f"algorithm.get_policy({policy_id!r})"
            )
        return self.policies[policy_id]

    def _by_policies(
        self,
        observations: Mapping[Any, Any],
        state: Mapping[Any, Sequence[Any]] | None,
        *,
        full_fetch: bool,
        explore: bool | None,
    ) -> Any:
        """Return what `compute_actions` does, each agent's by the policy that it has."""
        groups: dict[str, dict[Any, Any]] = {}
        for agent, observation in observations.items():
            groups.setdefault(self._known_policy(self.config.policy_of(agent)), {})[agent] = observation
        found = [
            self.compute_actions(
                group,
                None if state is None else {agent: state[agent] for agent in group if agent in state},
                policy_id=policy_id,
                full_fetch=full_fetch,
                explore=explore,
            )
            for policy_id, group in groups.items()
        ]
        if not full_fetch and not state:
            return {agent: action for chosen in found for agent, action in chosen.items()}
        parts = [part if isinstance(part, tuple) else (part, {}, {}) for part in found]
        actions = {agent: action for chosen, _, _ in parts for agent, action in chosen.items()}
        states = {agent: kept for _, after, _ in parts for agent, kept in after.items()}
        return actions, states, dict(zip(groups, (rest for *_, rest in parts), strict=True))

    def _stacked(
        self, policy_id: str, keyed: Mapping[Any, Any], state: Mapping[Any, Sequence[Any]] | None
    ) -> dict[str, Array] | None:
        if not state:
            return None
        given = [state[key] for key in keyed]
        for each in given:
            names = self._state_names(policy_id, each)
        return {name: np.stack([each[place] for each in given]) for place, name in enumerate(names)}

    def _state_names(self, policy_id: str, state: Sequence[Any] | None) -> list[str]:
        """Return the names of what a policy remembers. Raises SpaceError where a state has not as many parts."""
        acting = self.inference_of(policy_id)
        if isinstance(acting, ScriptedInference):
            names = [str(at) for at in range(len(acting.initial_state()))]
        else:
            names = list(self.policies[policy_id].learner.module.state())
        if state and len(state) != len(names):
            raise SpaceError(
                f"state has {len(state)} arrays, but the policy remembers {len(names)}: give what "
                "get_policy().get_initial_state() returns at first, and what came with the last action later"
            )
        return names

    # -- what the algorithm has beside ---------------------------------------------------------------------------------

    def broadcast(self) -> None:
        """Let all runners act with the learner's parameters of now."""
        raise NotImplementedError
