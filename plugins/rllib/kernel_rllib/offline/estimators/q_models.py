"""What estimators ask of a model of values, and how they are given one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError
from kernel_rllib.offline.estimators.fitted_q import FittedQEvaluation


class QModel(Protocol):
    """A model of what actions are worth where a policy goes on after them."""

    def train(self, batch: Batch) -> float:
        """Fit it to a batch, and return the loss."""

    def estimate_q(self, batch: Batch) -> Array:
        """Return what the actions of a batch are worth [N]."""

    def estimate_v(self, batch: Batch) -> Array:
        """Return what the observations of a batch are worth [N], where the policy acts."""


def q_model(policy: Any, gamma: float, config: Mapping[str, Any] | None) -> QModel:
    """Return the model that settings describe: `type`, a class, and its arguments; fitted Q evaluation by default.

    Raises:
        ConfigError: If `type` is no class.
    """
    settings = dict(config or {})
    kind = settings.pop("type", FittedQEvaluation)
    if not isinstance(kind, type):
        raise ConfigError(
            f"q_model_config has the type {kind!r}: give a class with train, estimate_q and estimate_v, or leave it "
            "out for fitted Q evaluation (FQETorchModel)"
        )
    made: QModel = kind(policy=policy, gamma=gamma, **settings)
    return made
