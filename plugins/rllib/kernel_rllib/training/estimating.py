"""Estimates of what the policy of now is worth, by recorded episodes as they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.offline.estimators.estimator import OffPolicyEstimator
from kernel_rllib.offline.estimators.importance_sampling import (
    ImportanceSamplingEstimator,
    WeightedImportanceSamplingEstimator,
)
from kernel_rllib.offline.rows import rows_of

ESTIMATORS: Mapping[str, type[OffPolicyEstimator]] = {
    "is": ImportanceSamplingEstimator,
    "wis": WeightedImportanceSamplingEstimator,
}


def asks_for_estimates(config: AlgorithmConfig) -> bool:
    """Return whether settings name estimators: where experience is only recorded, and not as a default of old."""
    is_given = config.is_set("off_policy_estimation_methods") and bool(config.off_policy_estimation_methods)
    return is_given and config.input_ != "sampler"


class Estimates:
    """Passes each episode that is read to estimators, and averages their estimates over an iteration."""

    def __init__(self, config: AlgorithmConfig, policy: Callable[[], Any]) -> None:
        """Make the estimators that settings name.

        Args:
            config: The settings.
            policy: Returns the policy, once there is one.

        Raises:
            ConfigError: If there is none of a name.
        """
        self._kinds = {name: _kind(name, given) for name, given in config.off_policy_estimation_methods.items()}
        self._gamma, self._policy = config.gamma, policy
        self._estimators: dict[str, OffPolicyEstimator] = {}
        self._found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in self._kinds}

    def take(self, fragments: Sequence[Fragment]) -> None:
        """Ask of all episodes in these fragments, also of the parts of those that break off."""
        if not self._estimators:
            policy = self._policy()
            self._estimators = {name: kind(policy, self._gamma) for name, kind in self._kinds.items()}
        for fragment in fragments:
            for rows in rows_of(fragment):
                for episode in rows.split_by_episode("dones"):
                    for name, estimator in self._estimators.items():
                        self._found[name].append(estimator.estimate(episode).metrics)

    def results(self) -> dict[str, dict[str, float]]:
        """Return the means since this was last asked, by the names of estimators and of metrics."""
        means = {
            name: {metric: float(np.mean([each[metric] for each in found])) for metric in found[0]}
            for name, found in self._found.items()
            if found
        }
        for found in self._found.values():
            found.clear()
        return means


def _kind(name: str, given: Any) -> type[OffPolicyEstimator]:
    kind = given.get("type") if isinstance(given, Mapping) else given
    if isinstance(kind, type) and issubclass(kind, OffPolicyEstimator):
        return kind
    if kind == "simulation":
        raise ConfigError(
            f"the estimator {name!r} is 'simulation', which plays in the environment: leave it out, and set "
            "evaluation_interval, which does so as well"
        )
    if kind not in ESTIMATORS:
        raise ConfigError(
            f"the estimator {name!r} is {kind!r}{did_you_mean(str(kind), ESTIMATORS)}: take {', '.join(ESTIMATORS)}, "
            "or a class derived from OffPolicyEstimator"
        )
    return ESTIMATORS[str(kind)]
