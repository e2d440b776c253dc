"""QR-DQN (Dabney et al. 2018, arXiv:1710.10044): DQN that learns quantiles of returns.

C51 learns how likely each of some returns is that are set beforehand. This learns returns, each at a level that is set
beforehand: no bounds of returns are to be known. All else is that of DQN (see `dqn.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.dqn import DQN, ONLINE, DQNConfig
from kernel_rllib.algorithms.quantile_regression import WITHOUT_ATOMS, quantile_huber
from kernel_rllib.algorithms.replaying import TD_ERRORS
from kernel_rllib.algorithms.simple_q import TdErrorLoss, statistics
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.off_policy import OffPolicyArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.q_network import QNetwork, QNetworkOptions
from kernel_rllib.modules.quantile_network import QUANTILES, QuantileNetwork
from kernel_rllib.nn.ops import Ops
from kernel_rllib.returns.quantiles import quantile_midpoints, quantile_targets
from kernel_rllib.training.honoured import HEADS, IMAGES

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class QRDQNConfig(DQNConfig):
    """The settings of QR-DQN: those of DQN without atoms, and how many quantiles it learns by which loss."""

    algorithm = "QRDQN"

    num_quantiles = Field(200, "How many quantiles of each action's return are learned.", range=(2, None))
    huber_threshold = Field(
        1.0, "Up to where the loss of a quantile is a square (kappa); 0: nowhere, it is linear.", range=(0, None)
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        num_quantiles: int = NOT_PROVIDED,
        huber_threshold: float = NOT_PROVIDED,
        double_q: bool = NOT_PROVIDED,
        dueling: bool = NOT_PROVIDED,
        hiddens: list[int] = NOT_PROVIDED,
        noisy: bool = NOT_PROVIDED,
        sigma0: float = NOT_PROVIDED,
        num_atoms: int = NOT_PROVIDED,
        v_min: float = NOT_PROVIDED,
        v_max: float = NOT_PROVIDED,
        categorical_distribution_temperature: float = NOT_PROVIDED,
        burn_in_len: int = NOT_PROVIDED,
        before_learn_on_batch: Callable[..., Any] | None = NOT_PROVIDED,
        adam_epsilon: float = NOT_PROVIDED,
        td_error_loss_fn: TdErrorLoss = NOT_PROVIDED,
        epsilon: float | Schedule | None = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how QR-DQN learns; return this config."""
        return self


class QRDQN(DQN):
    """Q-learning of quantiles, whose mean is the value of an action."""

    config: QRDQNConfig
    config_class = QRDQNConfig
    acts_on = HEADS | IMAGES
    network_class: ClassVar[type[QNetwork]] = QuantileNetwork
    without: ClassVar[Mapping[str, str]] = {**DQN.without, **WITHOUT_ATOMS}

    def network_options(self) -> QNetworkOptions:
        """Return how the network is built."""
        return replace(super().network_options(), atoms=self.config.num_quantiles)

    def make_loss(self) -> Loss:
        """Return the error of quantiles."""
        return quantile_loss(self.config.huber_threshold, lambda: self.noise(ONLINE))

    def backed_up(self, chosen: Mapping[str, Array], rewards: Array, discounts: Array) -> Array:
        """Return the quantiles [N, num_quantiles] of r + discount * Z'(next, a): algorithm 1, with the a of DQN."""
        return quantile_targets(chosen[QUANTILES], rewards, discounts)


def quantile_loss(threshold: float, noise: Callable[[], Array | None] = lambda: None) -> Loss:
    """Return the loss of quantiles against `value_targets` [N, targets], weighed by `weights`: algorithm 1.

    The losses of rows are also the errors of which priorities are made.

    Args:
        threshold: Up to where the loss of an error is a square.
        noise: Gives the noise of the network, [1, width]; None for none.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        assert isinstance(module, QuantileNetwork)
        inputs = {columns.OBS: batch[columns.OBS], columns.NOISE: noise()}
        quantiles = module.train(nn, parameters, inputs)[QUANTILES]
        chosen = nn.take_along(quantiles, batch[columns.ACTIONS][:, None, None], axis=1)[:, 0]
        levels = nn.constant(quantile_midpoints(module.options.atoms, np.float64))
        losses = quantile_huber(nn, chosen, levels, nn.constant(batch[columns.VALUE_TARGETS]), threshold)
        total = nn.mean(losses * nn.constant(batch[columns.WEIGHTS]))
        values = module.means(nn, nn.stop_gradient(chosen))
        return total, {"total_loss": total, TD_ERRORS: losses, **statistics(nn, values)}

    return loss
