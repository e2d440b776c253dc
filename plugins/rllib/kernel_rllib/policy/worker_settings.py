"""Settings of all workers of an algorithm, in any process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.sampler import Sampler
from kernel_rllib.spaces.preprocessors import Preprocessor, preprocessor_for


@dataclass(frozen=True)
class PolicySettings:
    """The settings of one policy.

    Attributes:
        distribution: The distribution of its actions, where it has one.
        config: Its settings, as a dict.
    """

    distribution: Distribution | None
    config: Mapping[str, Any]


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of all workers of an algorithm.

    Attributes:
        blueprint: The blueprint of their environments and modules.
        policies: The settings of the policies that learn, by their ids.
        config: The settings, as a dict.
        steps: The number of steps of each lane of a worker for one sample, by the number of the worker.
        policy_of: Returns the policy of a runner's sampler; None for a view of its module.
        policies_to_train: Ids of the policies that learn, or a function of an id and a batch; None for all.
    """

    blueprint: Blueprint | MultiAgentBlueprint
    policies: Mapping[str, PolicySettings]
    config: Mapping[str, Any]
    steps: Mapping[int, int]
    policy_of: Callable[[Sampler], Any] | None = None
    policies_to_train: Any = None

    def is_to_train(self, policy_id: str, batch: Any = None) -> bool:
        """Return whether a policy learns, from this batch; one of a class of the user's own never does."""
        if policy_id not in self.policies:
            return False
        chosen = self.policies_to_train
        if chosen is None:
            return True
        return bool(chosen(policy_id, batch)) if callable(chosen) else policy_id in chosen

    def preprocessors(self) -> dict[str, Preprocessor]:
        """Return the preprocessor of each policy's observations, by its id: the user's own where its settings name one.

        Raises:
            SpaceError: If there is none for a space.
        """
        blueprint = self.blueprint
        if isinstance(blueprint, MultiAgentBlueprint):
            policies: Mapping[str, Any] = blueprint.policies
        else:
            policies = {DEFAULT_POLICY_ID: blueprint}
        return {
            name: preprocessor_for(policy.observation_space, getattr(policy, "model_options", None))
            for name, policy in policies.items()
        }
