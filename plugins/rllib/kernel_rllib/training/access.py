"""Give users access to an algorithm's policies, modules and workers, under the names of every release."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.connectors.policy_statistics import of_policy
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import UnknownPolicyError
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.nn import philox
from kernel_rllib.policy.inference import Inference
from kernel_rllib.policy.module_view import ModuleView
from kernel_rllib.policy.parameters import LearnerParameters
from kernel_rllib.policy.scripted_inference import ScriptedInference
from kernel_rllib.policy.view import PolicyView
from kernel_rllib.policy.worker import WorkerView
from kernel_rllib.policy.worker_settings import PolicySettings, WorkerSettings
from kernel_rllib.policy.workers import WorkerSet
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.multi_agent_sampler import MultiAgentSampler
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint, ScriptedLanes
from kernel_rllib.training.policy_files import PolicyFiles
from kernel_rllib.training.policy_learning import PolicyLearning
from kernel_rllib.training.policy_views import view_of
from kernel_rllib.training.weights import PolicyWeights


class PolicyAccess(PolicyWeights):
    """Gives out the policies of an algorithm, and its workers."""

    config: AlgorithmConfig
    policies: dict[str, PolicyLearning]
    scripted: dict[str, ScriptedBlueprint]
    blueprint: Blueprint | MultiAgentBlueprint
    env_steps_sampled: int
    has_several_agents: bool
    seed: int

    def get_policy(self, policy_id: str = DEFAULT_POLICY_ID) -> Any:
        """Return a policy. Raises UnknownPolicyError, a KeyError, if there is none of that id."""
        policy_id = self._known_policy(policy_id)
        return self.workers.local_worker().get_policy(policy_id)

    def get_module(self, module_id: str = DEFAULT_POLICY_ID) -> ModuleView:
        """Return the module of a policy; its `forward_inference({"obs": rows})` acts with the parameters of now.

        Raises UnknownPolicyError if there is none, or the policy has no module.
        """
        return ModuleView(self._with_module(self._known_policy(module_id)).learner)

    def restore_workers(self, workers: WorkerSet) -> None:
        """Let runners take the places of those that died, as `fault_tolerance` says, and not only when they are missed.

        Runners are replaced anyway, when they are asked for samples. Where this is overridden, it is called before each
        iteration.

        Args:
            workers: Those of training, or of evaluation.

        Raises:
            RunnersLostError: If the death of a runner is an error, no runner is left, or too many died.
        """
        workers.restore()

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
        """The object that computes actions outside of the runners, with the only policy."""
        return self._inference_by_module(self._known_policy(DEFAULT_POLICY_ID))

    def inference_of(self, policy_id: str) -> Inference | ScriptedInference:
        """Return the object that computes actions outside of the runners, with one policy."""
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
                lambda: self.statistics_of(policy_id),
            )
        return made[policy_id]

    def statistics_of(self, policy_id: str) -> Statistics:
        """Return what the connectors of a policy have learned, by their names."""
        found = self.runners.statistics
        return of_policy(found, policy_id) if self.has_several_agents else found

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

        return view_of(
            policy,
            LearnerParameters(policy.learner, self.broadcast),
            self._inference_by_module(policy_id),
            learn=learn,
            timestep=lambda: self.env_steps_sampled,
            files=self.files_of(policy_id),
        )

    def files_of(self, policy_id: str) -> PolicyFiles:
        """Return what writes a policy by itself. Raises UnknownPolicyError where there is no module of it."""
        self.learner_of(policy_id)
        return PolicyFiles(self.policies[policy_id], lambda: self.statistics_of(policy_id))

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
