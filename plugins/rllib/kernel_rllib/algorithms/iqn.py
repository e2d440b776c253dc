"""IQN (Dabney et al. 2018, arXiv:1806.06923): DQN that learns the quantile of a return at any level.

QR-DQN learns quantiles at fixed levels, one output each. Here the level is an input of the network: each update draws
levels, and so does each step that explores. As levels need not be drawn evenly, actions can be chosen by how risky they
are (`risk_measure`). All else is that of DQN (see `dqn.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.dqn import CHOICE, DQN, ONLINE, TARGET, DQNConfig
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
from kernel_rllib.modules.implicit_quantile_network import (
    LEVELS,
    ImplicitQuantileNetwork,
    ImplicitQuantileOptions,
)
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.q_network import QNetwork
from kernel_rllib.modules.quantile_network import QUANTILES
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.returns.quantiles import quantile_targets
from kernel_rllib.returns.risk_measures import RiskMeasure, eta_problem
from kernel_rllib.training.honoured import HEADS, IMAGES

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

TARGET_LEVELS, CHOICE_LEVELS = "target_levels", "choice_levels"
"""The columns of the levels of the target's quantiles, and of those that the next action is chosen by."""


class IQNConfig(DQNConfig):
    """The settings of IQN: those of DQN without atoms, how many levels it draws for what, and how it takes risks."""

    algorithm = "IQN"

    num_quantiles = Field(64, "How many levels are drawn for each step that learns (N).", range=(1, None))
    num_target_quantiles = Field(64, "How many levels are drawn for its target (N').", range=(1, None))
    num_action_quantiles = Field(
        32, "How many levels are drawn for the values that actions are chosen by (K).", range=(1, None)
    )
    num_cosines = Field(64, "How many cosines of a level its embedding is made of (n).", range=(1, None))
    huber_threshold = Field(
        1.0, "Up to where the loss of a quantile is a square (kappa); 0: nowhere, it is linear.", range=(0, None)
    )
    risk_measure = Field[RiskMeasure | None](
        None, "What actions are chosen by in place of the mean of their returns, with risk_eta; None: by the mean."
    )
    risk_eta = Field[float | None](
        None,
        "The parameter of the measure: which share of the returns counts, the worst ones (CVaR); below 0 averse to "
        "risk, above 0 seeking it (Wang, Pow); how strongly chances are weighed (CPW).",
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        num_quantiles: int = NOT_PROVIDED,
        num_target_quantiles: int = NOT_PROVIDED,
        num_action_quantiles: int = NOT_PROVIDED,
        num_cosines: int = NOT_PROVIDED,
        huber_threshold: float = NOT_PROVIDED,
        risk_measure: RiskMeasure | None = NOT_PROVIDED,
        risk_eta: float | None = NOT_PROVIDED,
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
        """Set how IQN learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        measure, eta = self.risk_measure, self.risk_eta
        if measure is None:
            if eta is not None:
                yield f"risk_eta={eta} has no effect without risk_measure; set that too"
        elif eta is None:
            yield f"risk_measure={measure!r} has a parameter, and risk_eta is None; set that too"
        elif problem := eta_problem(measure, eta):
            yield f"risk_eta={eta} does not fit risk_measure={measure!r}: {problem}"


class IQN(DQN):
    """Q-learning of quantiles at levels that are drawn; their mean is the value of an action."""

    config: IQNConfig
    config_class = IQNConfig
    acts_on = HEADS | IMAGES
    network_class: ClassVar[type[QNetwork]] = ImplicitQuantileNetwork
    without: ClassVar[Mapping[str, str]] = {**DQN.without, **WITHOUT_ATOMS}

    def network_options(self) -> ImplicitQuantileOptions:
        """Return how the network is built."""
        config, usual = self.config, super().network_options()
        return ImplicitQuantileOptions(
            **{field.name: getattr(usual, field.name) for field in fields(usual)},
            cosines=config.num_cosines,
            acting_levels=config.num_action_quantiles,
            risk_measure=config.risk_measure,
            risk_eta=config.risk_eta or 0.0,
        )

    def make_loss(self) -> Loss:
        """Return the error of quantiles."""
        return implicit_quantile_loss(self.config.huber_threshold, lambda: self.noise(ONLINE))

    def setup_learning(self) -> None:
        """Begin to draw levels, beside what DQN makes."""
        super().setup_learning()
        self.level_stream = self.stream("levels")

    def draw(self) -> Batch:
        """Return a minibatch of what was kept, with levels."""
        return self.with_levels(super().draw())

    def errors_of(self, batch: Batch) -> Array:
        """Return the errors [N] of transitions by the networks of now, at levels that are drawn."""
        return super().errors_of(self.with_levels(batch))

    def with_levels(self, batch: Batch) -> Batch:
        """Return transitions with levels, uniform from 0 to 1; the measure of risk distorts those of choices."""
        module = self.learner.module
        assert isinstance(module, ImplicitQuantileNetwork)
        widths = {
            LEVELS: self.config.num_quantiles,
            TARGET_LEVELS: self.config.num_target_quantiles,
            CHOICE_LEVELS: self.config.num_action_quantiles,
        }
        drawn = {name: self.level_stream.random((batch.count, width), np.float32) for name, width in widths.items()}
        drawn[CHOICE_LEVELS] = module.distorted(drawn[CHOICE_LEVELS])
        return Batch(batch, **drawn)

    def targets_of(self, batch: Batch) -> Array:
        """Return the quantiles [N, num_target_quantiles] of r + discount * Z'(next, a): equation 2.

        Z' is the target network's, and a the best action by the mean of its quantiles at levels of their own, or of
        those of the network that learns if `double_q`.
        """
        obs = batch[columns.NEXT_OBS]
        chooser = (CHOICE, None) if self.config.double_q else (TARGET, self.target.vector)
        best = self.outputs_of(obs, *chooser, **{LEVELS: batch[CHOICE_LEVELS]})[columns.Q_VALUES].argmax(axis=1)
        found = self.outputs_of(obs, TARGET, self.target.vector, **{LEVELS: batch[TARGET_LEVELS]})
        return quantile_targets(found[QUANTILES][np.arange(len(best)), best], batch[columns.REWARDS], batch[DISCOUNTS])

    def own_state(self) -> dict[str, Any]:
        """Return where the draws of levels are, beside what DQN keeps."""
        return {**super().own_state(), "levels": self.level_stream.bit_generator.state}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        super().set_own_state(state)
        self.level_stream.bit_generator.state = state["levels"]


def implicit_quantile_loss(threshold: float, noise: Callable[[], Array | None] = lambda: None) -> Loss:
    """Return the loss of quantiles at `levels` [N, L] against `value_targets` [N, targets]: equation 3.

    It is weighed by `weights`. The losses of rows are also the errors of which priorities are made.

    Args:
        threshold: Up to where the loss of an error is a square.
        noise: Gives the noise of the network, [1, width]; None for none.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        assert isinstance(module, ImplicitQuantileNetwork)
        inputs = {columns.OBS: batch[columns.OBS], columns.NOISE: noise(), LEVELS: batch[LEVELS]}
        quantiles = module.train(nn, parameters, inputs)[QUANTILES]
        chosen = nn.take_along(quantiles, batch[columns.ACTIONS][:, None, None], axis=1)[:, 0]
        targets = nn.constant(batch[columns.VALUE_TARGETS])
        losses = quantile_huber(nn, chosen, nn.constant(batch[LEVELS]), targets, threshold)
        total = nn.mean(losses * nn.constant(batch[columns.WEIGHTS]))
        values = module.means(nn, nn.stop_gradient(chosen))
        return total, {"total_loss": total, TD_ERRORS: losses, **statistics(nn, values)}

    return loss
