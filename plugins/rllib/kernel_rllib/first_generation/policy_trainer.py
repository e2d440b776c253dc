"""The trainer of a user's policy: runners sample with it, and it learns from what they bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data.batch import Batch, concatenated
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.exploration import Exploration, StochasticSampling
from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.first_generation.policy_module import PolicyActions, UserPolicyModule
from kernel_rllib.first_generation.torch_policy import TorchPolicy
from kernel_rllib.first_generation.trainer import GENERATION, Trainer
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.modules.module import Module
from kernel_rllib.policy.worker import batch_of
from kernel_rllib.policy.worker_settings import WorkerSettings
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.sampler import Sampler
from kernel_rllib.training.acting import of_one_step
from kernel_rllib.training.results import mean_metrics


class PolicyTrainer(Trainer):
    """Samples a batch of `train_batch_size` steps, and lets the policy learn from it. Make one by `build_trainer`."""

    config_class = AlgorithmConfig
    acts_on = frozenset({"model"})
    _policy_class: ClassVar[Any] = None
    _get_policy_class: ClassVar[Callable[[Any], Any]] = staticmethod(lambda config: None)

    policy: Any
    """The policy that learns."""

    @classmethod
    def _with_policy(cls, policy: Any, choose: Callable[[Any], Any] | None) -> dict[str, Any]:
        """Return the attributes of a class that is like this one, but for its policy, or what chooses that."""
        return {
            "_policy_class": policy or cls._policy_class,
            "_get_policy_class": staticmethod(choose or (lambda config: None)),
        }

    def setup(self, config: dict[str, Any]) -> None:
        """Make the policy, runners and all."""
        if self._settings.evaluation_num_env_runners and not self._learns_in_torch(self._chosen_class()):
            raise ConfigError(
                "evaluation_num_workers is above 0, but the weights of a policy of one's own are not sent to runners "
                "of evaluations: set it to 0"
            )
        super().setup(config)

    def check_default_policy(self) -> None:
        """Take any class of policies."""

    def setup_learning(self) -> None:
        """Let a policy in torch change the learner's parameters."""
        if isinstance(self.policy, TorchPolicy):
            self.policy.bind(self.learner.vector)

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return the policy's model, or a module that is the policy."""
        self.policy, module = policy_and_module(
            self._chosen_class(), self.spaces.observation, self.spaces.action, self._policy_config()
        )
        return module

    def make_exploration(self) -> Exploration:
        """Return draws from the distribution, or whatever the policy does."""
        return exploration_of(self.policy)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return none: the policy learns by itself."""
        return {}

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Let the policy learn from pieces of episodes as it has postprocessed them."""
        pieces = [
            self.policy.postprocess_trajectory(self._with_further_columns(piece), {}, None)
            for fragment in fragments
            for piece in batch_of(fragment).split_by_episode()
        ]
        batch = concatenated(pieces)
        assert isinstance(batch, Batch)
        reports = [self._learned(part) for part in self._parts(batch)]
        return mean_metrics([{k: v for k, v in report.items() if np.isscalar(v)} for report in reports])

    def broadcast(self) -> None:
        """Let all runners act with the policy's weights of now."""
        super().broadcast()
        if isinstance(self.learner.module, UserPolicyModule) and self.runners.local is None:
            self.runners.foreach(_set_policy_weights, self.policy.get_weights())

    def compute_single_action(self, observation: Any = None, state: Any = None, **named: Any) -> Any:
        """Return the action for one observation of the environment; see `Algorithm.compute_single_action`."""
        if isinstance(self.policy, TorchPolicy):
            return super().compute_single_action(observation, state, **named)
        if named.get("input_dict") is not None:
            observation, state, _, _ = of_one_step(named["input_dict"])
        row = self.inference.rows([observation])[0]
        full, explore = named.get("full_fetch", False), named.get("explore")
        found = self.policy.compute_single_action(
            row, state, explore=bool(self.config.explore) if explore is None else explore
        )
        return found if full or state else found[0]

    def own_state(self) -> dict[str, Any]:
        """Return what the policy keeps beside parameters."""
        kept = {"optimizers": self.policy.optimizer_state()} if isinstance(self.policy, TorchPolicy) else None
        return {**super().own_state(), "policy": self.policy.get_state() if kept is None else kept}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        super().set_own_state(state)
        if isinstance(self.policy, TorchPolicy):
            self.policy.set_optimizer_state(state["policy"]["optimizers"])
        else:
            self.policy.set_state(state["policy"])

    # -- inside -------------------------------------------------------------------------------------------------------

    def _chosen_class(self) -> Any:
        made = type(self)
        chosen = (
            made.get_default_policy_class(self._settings)
            or made._get_policy_class(self._settings)
            or self._policy_class
        )
        return require_policy_class(chosen, type(self).__name__)

    @staticmethod
    def _learns_in_torch(chosen: Any) -> bool:
        return issubclass(chosen, TorchPolicy)

    def _policy_config(self) -> dict[str, Any]:
        return {**self._settings.to_dict(GENERATION), "seed": self.seed}

    def _policies(self) -> Mapping[str, Any]:
        return {DEFAULT_POLICY_ID: self.policy}

    def worker_settings(self, *args: Any) -> WorkerSettings:
        """Return what is known of the workers of a group; see `PolicyAccess.worker_settings`."""
        found = super().worker_settings(*args)
        module = self.learner.module
        if not isinstance(module, UserPolicyModule):
            return found
        return replace(found, policy_of=policy_of_sampler)

    def _with_further_columns(self, piece: Batch) -> Batch:
        if isinstance(self.policy, TorchPolicy):
            for name, column in self.policy.further_columns(piece).items():
                piece[name] = column
        return piece

    def _parts(self, batch: Batch) -> Any:
        epochs, size = int(self.config.num_epochs or 1), self.config.minibatch_size
        if epochs <= 1 and not size:
            return [batch]
        stream = self.stream("minibatches", self.env_steps_sampled)
        shuffle = self.config.shuffle_batch_per_epoch or not self.config.is_set("shuffle_batch_per_epoch")
        return batch.minibatches(int(size or batch.count), stream, epochs=epochs, shuffle=shuffle)

    def _learned(self, batch: Batch) -> Metrics:
        report = dict(self.policy.learn_on_batch(batch) or {})
        self.learner.version += 1
        self.env_steps_trained += batch.count
        self._hooks.call("after_optimizer_step", self, report)
        return {**report.pop("learner_stats", {}), **report}


def policy_and_module(
    chosen: Any, observation_space: Any, action_space: Any, config: Mapping[str, Any]
) -> tuple[Any, Module]:
    """Return a policy of a class, and the module that acts as it does."""
    if issubclass(chosen, TorchPolicy):
        policy = chosen(observation_space, action_space, config)
        return policy, policy.module
    own = UserPolicyModule(chosen, observation_space, action_space, config)
    return own.policy, own


def exploration_of(policy: Any) -> Exploration:
    """Return how a policy's actions are chosen: drawn from its distribution, or as it chooses itself."""
    return StochasticSampling(policy.distribution) if isinstance(policy, TorchPolicy) else PolicyActions()


def require_policy_class(chosen: Any, owner: str) -> Any:
    """Return a class of policies. Raises ConfigError for anything else; `owner` is who was given it."""
    if not isinstance(chosen, type) or not issubclass(chosen, Policy):
        raise ConfigError(
            f"{owner} was given the policy {chosen!r}: give a class that is derived from Policy, or one that "
            "build_torch_policy returned"
        )
    return chosen


def policy_of_sampler(sampler: Sampler) -> Any:
    """Return the policy of one's own that a runner acts by."""
    module = sampler.module
    assert isinstance(module, UserPolicyModule)
    return module.policy


def _set_policy_weights(runner: EnvRunner, weights: Any) -> None:
    policy_of_sampler(cast(Sampler, runner.sampler)).set_weights(weights)
