"""TQC (Kuznetsov et al. 2020, arXiv:2005.04269): SAC whose critics learn quantiles, of which the highest don't count.

SAC takes the lower value of two critics, so that targets are not too high. Here the quantiles of all critics are taken
together, and some of the highest are dropped: how many says how careful it is, whatever the number of critics. All else
is that of SAC (see `sac.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kernel_rllib.algorithms.quantile_regression import quantile_huber
from kernel_rllib.algorithms.replaying import TD_ERRORS
from kernel_rllib.algorithms.sac import SAC, SACConfig, policy_loss
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.network_config import NetworkConfig
from kernel_rllib.config.off_policy import OffPolicyArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.actor_q_critics import ActorQCriticsOptions
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.returns.quantiles import quantile_midpoints, quantile_targets
from kernel_rllib.returns.truncated_quantiles import truncated_mixture

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class TQCConfig(SACConfig):
    """The settings of TQC: those of SAC, how many critics and quantiles there are, and how many are dropped."""

    algorithm = "TQC"

    n_quantiles = Field(25, "How many quantiles of returns each critic gives (M).", range=(1, None), since="current")
    n_critics = Field(2, "How many critics there are (N); the paper has 5.", range=(1, None), since="current")
    top_quantiles_to_drop_per_net = Field(
        2,
        "How many quantiles are dropped for each critic, of the highest ones of all (d): more against values that are "
        "too high.",
        range=(0, None),
        since="current",
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        n_quantiles: int = NOT_PROVIDED,
        n_critics: int = NOT_PROVIDED,
        top_quantiles_to_drop_per_net: int = NOT_PROVIDED,
        twin_q: bool = NOT_PROVIDED,
        q_model_config: dict[str, Any] | NetworkConfig = NOT_PROVIDED,
        policy_model_config: dict[str, Any] | NetworkConfig = NOT_PROVIDED,
        actor_lr: float | Schedule = NOT_PROVIDED,
        critic_lr: float | Schedule = NOT_PROVIDED,
        alpha_lr: float | Schedule = NOT_PROVIDED,
        initial_alpha: float = NOT_PROVIDED,
        target_entropy: float | Literal["auto"] | None = NOT_PROVIDED,
        clip_actions: bool = NOT_PROVIDED,
        use_state_preprocessor: bool = NOT_PROVIDED,
        _deterministic_loss: bool = NOT_PROVIDED,
        _use_beta_distribution: bool = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how TQC learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.top_quantiles_to_drop_per_net >= self.n_quantiles:
            yield (
                f"top_quantiles_to_drop_per_net={self.top_quantiles_to_drop_per_net} leaves none of "
                f"n_quantiles={self.n_quantiles}; drop fewer, or learn more"
            )


class TQC(SAC):
    """Soft actor-critic with critics of quantiles, whose targets are without the highest ones."""

    config: TQCConfig
    config_class = TQCConfig
    takes_discrete = False
    without: ClassVar[Mapping[str, str]] = {**SAC.without, "twin_q": "n_critics says how many critics there are"}

    def module_options(self) -> ActorQCriticsOptions:
        """Return how the networks are built."""
        return replace(super().module_options(), critics=self.config.n_critics, quantiles=self.config.n_quantiles)

    def make_loss(self) -> Loss:
        """Return the loss of critics."""
        return quantile_critics_loss

    def make_policy_loss(self) -> Loss:
        """Return the loss of the policy: that of SAC, with the mean of all quantiles as the value of an action."""
        return policy_loss(self.distribution, mean_quantile)

    def targets_of(self, batch: Batch) -> Array:
        """Return the quantiles r + discount (z'_(i)(s', a') - alpha log pi(a' | s')): equation 11.

        They are [N, n_critics * (n_quantiles - top_quantiles_to_drop_per_net)]. The action a' is drawn from the policy
        of now, and z'_(i) are the lowest quantiles of the slower copy.
        """
        actions, log_probs, temperature = self.next_actions(batch)
        quantiles = self.learner.evaluate(
            lambda nn, p: self.module.q_values(nn, p, batch[columns.NEXT_OBS], actions), self.target.vector
        )
        kept = truncated_mixture(quantiles, self.config.top_quantiles_to_drop_per_net)
        return quantile_targets(kept - (temperature * log_probs)[:, None], batch[columns.REWARDS], batch[DISCOUNTS])


def quantile_critics_loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
    """Return the sum over critics of the losses of their quantiles against `value_targets` [N, targets], by `weights`.

    Of each critic it is the mean over quantiles and targets of the quantile Huber loss (section 4, J_Z). Priorities are
    made of the losses of rows, whose mean over critics is reported.
    """
    targets, weights = nn.constant(batch[columns.VALUE_TARGETS]), nn.constant(batch[columns.WEIGHTS])
    quantiles = module.q_values(nn, parameters, batch[columns.OBS], batch[columns.ACTIONS])
    levels = nn.constant(quantile_midpoints(module.options.quantiles, "float64"))
    losses = [quantile_huber(nn, each, levels, targets, 1.0) / module.options.quantiles for each in quantiles]
    total, *others = (nn.mean(loss * weights) for loss in losses)
    for other in others:
        total = total + other
    values = nn.to_numpy(quantiles[0]).mean(axis=1)
    return total, {
        "critic_loss": total,
        "mean_q": values.mean(),
        "min_q": values.min(),
        "max_q": values.max(),
        TD_ERRORS: sum(nn.to_numpy(loss) for loss in losses) / len(losses),
    }


def mean_quantile(nn: Ops, quantiles: Sequence[Any]) -> Any:
    """Return the mean [N] over critics and quantiles of what each critic gives [N, quantiles]: no one is dropped."""
    return nn.mean(nn.concat(list(quantiles), axis=1), axis=1)
