"""Conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779): SAC that learns from recorded experience alone.

Where nobody tries actions, nothing corrects values that are too high, and a policy goes where they are. Here values of
actions that are likely by the policy, or drawn evenly, are held down, and those of recorded actions up. All else is as
in SAC (see `sac.py`), with continuous or with discrete actions. `input_` says what is learned from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernel_rllib.algorithms.off_policy_actor_critic import errors_loss, values_of_taken
from kernel_rllib.algorithms.sac import ENTROPIES, NOISE, SAC, SACConfig
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.network_config import NetworkConfig
from kernel_rllib.config.off_policy import OffPolicyArguments
from kernel_rllib.config.replay_config import UNIFORM
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.actor_q_critics import PENALTY, ActorQCriticsOptions
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

CANDIDATES = "candidate_actions"
"""The column of actions that values are held down of [N, M, D]: drawn evenly, and from the policy."""
CANDIDATE_LOG_DENSITIES = "candidate_log_densities"
"""The column of the logarithms of the densities that they were drawn by [N, M]."""
GAPS = "conservative_gaps"
"""The column of how much higher values of candidates are than those of recorded actions [N], a mean over critics."""
_MOST_PENALTY = 1e6


class CQLConfig(SACConfig):
    """The settings of CQL: those of SAC, and how values of actions are held down that nobody has tried."""

    algorithm = "CQL"

    defaults = values(
        actor_lr=Default(1e-4, older={"2.x": 3e-4, "1.x": 3e-5}),
        critic_lr=Default(1e-3, older={"2.x": 3e-4}),
        alpha_lr=Default(1e-3, older={"2.x": 3e-4}),
        num_steps_sampled_before_learning_starts=0,
        replay_buffer_config=values(type=UNIFORM, capacity=1_000_000, alpha=0.6, beta=0.4),
        min_time_s_per_iteration=None,
        min_sample_timesteps_per_iteration=0,
        min_train_timesteps_per_iteration=100,
    )

    bc_iters = Field(
        20_000,
        "For how many updates the policy imitates what was recorded, before it goes by values.",
        range=(0, None),
        since="1.x",
    )
    temperature = Field(
        1.0, "How evenly all high values are held down: near 0 the highest alone.", above=0, since="1.x"
    )
    num_actions = Field(
        10,
        "How many actions are drawn evenly, by the policy, and by the policy at the next step.",
        range=(1, None),
        since="1.x",
    )
    lagrangian = Field(False, "Whether the weight of the penalty is learned, so that it meets a bound.", since="1.x")
    lagrangian_thresh = Field(5.0, "The bound: how high the penalty may be.", since="1.x")
    min_q_weight = Field(5.0, "The weight of the penalty on high values.", range=(0, None), since="1.x")
    deterministic_backup = Field(
        True, "Whether targets are without the entropy that the policy has after a step.", since="current"
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        bc_iters: int = NOT_PROVIDED,
        temperature: float = NOT_PROVIDED,
        num_actions: int = NOT_PROVIDED,
        lagrangian: bool = NOT_PROVIDED,
        lagrangian_thresh: float = NOT_PROVIDED,
        min_q_weight: float = NOT_PROVIDED,
        deterministic_backup: bool = NOT_PROVIDED,
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
        """Set how CQL learns; return this config."""
        return self


class CQL(SAC):
    """Soft actor-critic whose critics think little of actions that were not recorded."""

    config: CQLConfig
    config_class = CQLConfig

    def module_options(self) -> ActorQCriticsOptions:
        """Return how the networks are built."""
        return replace(super().module_options(), initial_penalty=1.0 if self.config.lagrangian else None)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return those of SAC; the weight of the penalty has one too, where it is learned."""
        objectives = dict(super().make_objectives())
        if self.config.lagrangian:
            loss = penalty_loss(self.config.min_q_weight, self.config.lagrangian_thresh)
            objectives["penalty"] = self.objective(loss, (PENALTY,), lr="critic_lr")
        return objectives

    def make_loss(self) -> Loss:
        """Return the loss of critics."""
        return conservative_loss(self.config)

    def make_policy_loss(self) -> Loss:
        """Return the loss of the policy: in the first `bc_iters` updates that of imitation."""
        imitating, usual = imitation_loss(self.distribution), super().make_policy_loss()

        def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
            chosen = imitating if self.updates <= self.config.bc_iters else usual
            return chosen(nn, module, parameters, batch)

        return loss

    def targets_of(self, batch: Batch) -> Array:
        """Return r + discount min Q'(s', a'), and only without `deterministic_backup` with the policy's entropy."""
        return self.bootstrapped(batch, counts_entropy=not self.config.deterministic_backup)

    def prepare(self, batch: Batch) -> None:
        """Add targets, and candidates: as many evenly drawn, of the policy, and of the policy at the next step."""
        super().prepare(batch)
        if self.bounds is None:  # the values of all actions are known
            return
        low, high = self.bounds
        shape = (batch.count, self.config.num_actions, len(low))
        evenly = low + (high - low) * self.draws.random(shape, np.float32)
        density = np.full(shape[:2], -np.log(high - low).sum(), np.float32)
        number = self.config.num_actions
        drawn = [
            (evenly, density), self.drawn_actions(batch[columns.OBS], number),
            self.drawn_actions(batch[columns.NEXT_OBS], number),
        ]  # fmt: skip
        batch[CANDIDATES] = np.concatenate([actions for actions, _ in drawn], axis=1)
        batch[CANDIDATE_LOG_DENSITIES] = np.concatenate([densities for _, densities in drawn], axis=1)

    def improve_policy(self, batch: Batch) -> Metrics:
        """Let the policy make a step, and the temperature and the weight of the penalty, if they are learned."""
        metrics = super().improve_policy(batch)
        if self.config.lagrangian:
            metrics.update(self.learner.update(batch, self.env_steps_sampled, ("penalty",)))
        return metrics

    def update(self, batch: Batch, only: Sequence[str] | None = None) -> Metrics:
        """Let the learner make one step, and keep in the batch how far values are apart."""
        metrics = super().update(batch, only)
        batch[GAPS] = metrics.pop(GAPS)
        return {**metrics, "conservative_gap": float(batch[GAPS].mean())}


def conservative_loss(config: Any) -> Loss:
    """Return the loss of critics: squares of their errors, and a weight times what their values are held down by.

    Of each critic that is min_q_weight * mean(T log sum_a exp((Q(s, a) - log mu(a)) / T) - Q(s, a_recorded)), which is
    equation 4 with candidates a that were drawn by the density mu (appendix F), and T the `temperature`. Of discrete
    actions the sum is over all of them. With `lagrangian` it is alpha' times what that is above `lagrangian_thresh`
    (equation 30).

    Args:
        config: Gives `temperature`, `min_q_weight`, `lagrangian` and `lagrangian_thresh`.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        taken, others = _values(nn, module, parameters, batch)
        total, metrics = errors_loss(nn, taken, batch, lambda nn, errors: nn.square(errors))
        temperature = config.temperature
        gaps = [
            nn.logsumexp(other / temperature, axis=1) * temperature - value
            for other, value in zip(others, taken, strict=True)
        ]
        for gap in gaps:
            penalty = nn.mean(gap) * config.min_q_weight
            if config.lagrangian:
                weight = nn.stop_gradient(_penalty_weight(nn, module, parameters))
                penalty = nn.sum(weight) * (penalty - config.lagrangian_thresh)
            total = total + penalty
        found = [nn.to_numpy(gap) for gap in gaps]
        return total, {**metrics, "critic_loss": total, GAPS: sum(found) / len(found)}

    return loss


def penalty_loss(min_q_weight: float, threshold: float) -> Loss:
    """Return -alpha' (min_q_weight * mean of the column of gaps - threshold): it makes alpha' larger above the bound.

    That is the other side of equation 30, a maximum over alpha', which is exp of the parameter and 1e6 at most.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        weight = nn.sum(_penalty_weight(nn, module, parameters))
        total = -weight * (min_q_weight * float(batch[GAPS].mean()) - threshold)
        return total, {"alpha_prime_loss": total, "alpha_prime_value": weight}

    return loss


def imitation_loss(distribution: Distribution) -> Loss:
    """Return the mean of alpha log pi(a | s) - log pi(a_recorded | s), for an action a that the policy draws.

    Of discrete actions the first part is over all of them. Entropies of the policy are reported, as by SAC's loss.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        inputs = module.train(nn, parameters, batch)[columns.ACTION_DIST_INPUTS]
        temperature = nn.stop_gradient(nn.exp(module.log_temperature(parameters)))
        recorded = distribution.log_prob(nn, inputs, nn.constant(batch[columns.ACTIONS]))
        if distribution.reparameterised:
            _, drawn = distribution.sample_and_log_prob(nn, inputs, nn.constant(batch[NOISE]))
        else:
            drawn = -distribution.entropy(nn, inputs)
        total = nn.mean(temperature * drawn - recorded)
        return total, {"actor_loss": total, ENTROPIES: -nn.stop_gradient(drawn)}

    return loss


def _values(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[list[Any], list[Any]]:
    """Return each critic's values of recorded actions [N], and of others less their log-densities [N, M]."""
    obs, actions = batch[columns.OBS], batch[columns.ACTIONS]
    if CANDIDATES not in batch:
        of_all = module.q_values(nn, parameters, obs)
        return values_of_taken(nn, of_all, actions), of_all
    asked = np.concatenate([actions[:, None], batch[CANDIDATES]], axis=1)
    count, number, width = asked.shape
    flat = module.q_values(
        nn, parameters, obs.repeat(number, axis=0), nn.constant(asked.reshape(count * number, width))
    )
    shaped = [nn.reshape(value, (count, number)) for value in flat]
    densities = nn.constant(batch[CANDIDATE_LOG_DENSITIES])
    return [value[:, 0] for value in shaped], [value[:, 1:] - densities for value in shaped]


def _penalty_weight(nn: Ops, module: Any, parameters: Parameters) -> Any:
    return nn.clip(nn.exp(module.log_penalty(parameters)), 0.0, _MOST_PENALTY)
