"""Estimates of what the policy of now is worth, by recorded episodes as they are read."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, concatenated
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.offline.estimators.batch_estimator import BatchEstimator
from kernel_rllib.offline.estimators.direct_method import DirectMethod
from kernel_rllib.offline.estimators.doubly_robust import DoublyRobust
from kernel_rllib.offline.estimators.estimator import OffPolicyEstimator
from kernel_rllib.offline.estimators.importance_sampling import (
    ImportanceSamplingEstimator,
    WeightedImportanceSamplingEstimator,
)
from kernel_rllib.offline.rows import rows_of

ESTIMATORS: Mapping[str, type[OffPolicyEstimator] | type[BatchEstimator]] = {
    "is": ImportanceSamplingEstimator,
    "wis": WeightedImportanceSamplingEstimator,
    "dm": DirectMethod,
    "dr": DoublyRobust,
}


def asks_for_estimates(config: AlgorithmConfig) -> bool:
    """Return whether settings name estimators: where experience is only recorded, and not as a default of old."""
    is_given = config.is_set("off_policy_estimation_methods") and bool(config.off_policy_estimation_methods)
    return is_given and config.input_ != "sampler"


class Estimates:
    """Passes each episode that is read to estimators, and averages their estimates over an iteration."""

    def __init__(self, config: AlgorithmConfig, policy: Callable[[], Any]) -> None:
        """Make the estimators that settings name, once there is a policy.

        Args:
            config: The settings.
            policy: Returns the policy, once there is one.

        Raises:
            ConfigError: If there is none of a name, or it has no such setting.
        """
        self._asked = {name: _asked(name, given) for name, given in config.off_policy_estimation_methods.items()}
        self._gamma, self._policy = config.gamma, policy
        self._by_episode = config.ope_split_batch_by_episode
        self._by_one: dict[str, OffPolicyEstimator] = {}
        self._by_batch: dict[str, BatchEstimator] = {}
        self._found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in self._asked}
        self._read: list[Batch] = []

    @property
    def needs_action_prob(self) -> bool:
        """Return whether an estimator has to know how likely the recorded actions were."""
        return any(getattr(asked.kind, "needs_action_prob", True) for asked in self._asked.values())

    def take(self, fragments: Sequence[Fragment]) -> None:
        """Ask of all episodes in these fragments, also of the parts of those that break off."""
        self._make()
        for episode in _episodes(fragments):
            for part in [episode] if self._by_episode else episode.timeslices(1):
                for name, estimator in self._by_one.items():
                    self._found[name].append(estimator.estimate(part).metrics)
            if self._by_batch:
                self._read.append(episode)

    def results(self) -> dict[str, dict[str, float]]:
        """Return what was estimated since this was last asked, by the names of estimators and of metrics.

        Estimators that learn are fitted to the steps that were read since, before they are asked of these.
        """
        means = {
            name: {metric: float(np.mean([each[metric] for each in found])) for metric in found[0]}
            for name, found in self._found.items()
            if found
        }
        for found in self._found.values():
            found.clear()
        if self._read:
            batch = _numbered(self._read)
            self._read.clear()
            for name, by_batch in self._by_batch.items():
                fitted = by_batch.train(batch)
                means[name] = {**by_batch.estimate(batch, split_batch_by_episode=self._by_episode), **fitted}
        return means

    def _make(self) -> None:
        if self._by_one or self._by_batch:
            return
        policy = self._policy()
        for name, asked in self._asked.items():
            made = asked.kind(policy, self._gamma, **asked.settings)
            if isinstance(made, BatchEstimator):
                self._by_batch[name] = made
            else:
                self._by_one[name] = made


@dataclass(frozen=True)
class _Asked:
    """The class of an estimator, and its arguments beside the policy and gamma."""

    kind: Callable[..., OffPolicyEstimator | BatchEstimator]
    settings: Mapping[str, Any]


def _episodes(fragments: Sequence[Fragment]) -> Iterator[Batch]:
    for fragment in fragments:
        for rows in rows_of(fragment):
            yield from rows.split_by_episode("dones")


def _numbered(episodes: Sequence[Batch]) -> Batch:
    """Return the steps of episodes, numbered by these."""
    batch = Batch(concatenated(episodes))  # type: ignore[arg-type]
    batch[columns.EPS_ID] = np.repeat(np.arange(len(episodes)), [episode.count for episode in episodes])
    return batch


def _asked(name: str, given: Any) -> _Asked:
    settings = {**given} if isinstance(given, Mapping) else {"type": given}
    kind = settings.pop("type", None)
    if kind == "simulation":
        raise ConfigError(
            f"the estimator {name!r} is 'simulation', which plays in the environment: leave it out, and set "
            "evaluation_interval, which does so as well"
        )
    found = ESTIMATORS.get(kind) or _imported(kind) if isinstance(kind, str) else kind
    if not (isinstance(found, type) and issubclass(found, (OffPolicyEstimator, BatchEstimator))):
        raise ConfigError(
            f"the estimator {name!r} is {kind!r}{did_you_mean(str(kind), ESTIMATORS)}: take {', '.join(ESTIMATORS)}, "
            "or a class derived from OffPolicyEstimator"
        )
    if "q_model_type" in settings or "k" in settings:
        raise ConfigError(
            f"the estimator {name!r} has {' and '.join({'q_model_type', 'k'} & settings.keys())}, of RLlib 1.x: leave "
            "them out; q_model_config={'type': ..., 'n_iters': ...} says which model of values is fitted, fitted Q "
            "evaluation by default"
        )
    taken = inspect.signature(found.__init__).parameters  # type: ignore[misc]
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values()):
        for wrong in settings.keys() - taken.keys():
            known = [each for each in taken if each not in ("self", "policy", "gamma")]
            raise ConfigError(
                f"the estimator {name!r} has no setting {wrong!r}{did_you_mean(wrong, known)}: {found.__name__} has "
                f"{', '.join(known) or 'none'}"
            )
    return _Asked(found, settings)


def _imported(path: str) -> Any:
    """Return the class at a dotted path, or None."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None) if module else None
    except ImportError:
        return None
