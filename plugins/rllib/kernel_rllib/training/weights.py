"""The parameters of the policies of an algorithm: how users get and set them, and how runners come to have them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.errors import UnknownPolicyError
from kernel_rllib.learners.group import LearnerGroup
from kernel_rllib.learners.learner import Learner
from kernel_rllib.runners.group import RunnerGroup


class PolicyWeights:
    """Gets and sets the parameters of an algorithm, policy by policy."""

    scripted: Mapping[str, Any]
    learners: LearnerGroup
    runners: RunnerGroup

    def get_weights(self, policies: Collection[str] | None = None) -> dict[str, dict[str, Array]]:
        """Return a copy of the parameters of each policy: arrays by their names, by the policy's id.

        Args:
            policies: The ids of those that are asked for; None for all.

        Raises:
            KeyError: If there is none of such an id.
        """
        wanted = [*self.learners] if policies is None else [*policies]
        return {
            policy_id: {name: value.copy() for name, value in parameters_of(self.learner_of(policy_id)).items()}
            for policy_id in wanted
        }

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Let policies have these parameters, and let all runners act with them.

        Args:
            weights: As `get_weights` returns them; of policies that are missing nothing changes.

        Raises:
            KeyError: If there is no policy of such an id.
            ModuleError: If parameters are missing, unknown or misshapen.
        """
        vectors = {name: self.learner_of(name).module.table.vector(values) for name, values in weights.items()}
        self.learners.set_weights(vectors)
        self.broadcast()

    def learner_of(self, policy_id: str) -> Learner:
        """Return the learner of a policy. Raises UnknownPolicyError, a KeyError, where there is none of this id."""
        if policy_id in self.scripted:
            raise UnknownPolicyError(
                f"the policy {policy_id!r} is of a class of its own, and no parameters of it are known: ask "
                f"get_policy({policy_id!r}) for what it has"
            )
        return self.learners[policy_id]

    def broadcast(self) -> None:
        """Let all runners act with the learners' parameters of now."""
        self.runners.set_weights(self.learners.vector, self.learners.version)


def parameters_of(learner: Learner) -> Mapping[str, Array]:
    """Return the parameters of a learner by their names: views of its vector, where that is in numpy."""
    return learner.module.table.views(np.asarray(learner.weights))
