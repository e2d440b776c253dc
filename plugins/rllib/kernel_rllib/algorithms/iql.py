"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169): values of recorded actions alone, nothing beyond them.

A value of observations is learned as an upper expectile of what critics say of recorded actions: about as much as the
best of these are worth. Critics learn towards it, so that they are never asked for actions that were not recorded. The
policy imitates recorded actions, the more so the better they are. `input_` says what is learned from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.off_policy_actor_critic import (
    OffPolicyActorCritic,
    critic_loss,
    discounted,
    refused_settings,
    values_of_taken,
)
from kernel_rllib.algorithms.replaying import TD_ERRORS
from kernel_rllib.algorithms.weighted_imitation import ACTION_WEIGHTS, told_of_weights, weighted_imitation_loss
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.replay_config import UNIFORM
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.actor_q_critics import CRITICS, POLICY, VALUE, ActorQCriticsOptions, least
from kernel_rllib.modules.catalog import convolution_options, hidden_layers
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

TARGET_VALUES = "target_q_values"
"""The column of what the slower copies of critics give for recorded actions [N], the lower ones."""
_MOST_WEIGHT = 100.0


class IQLConfig(OffPolicyConfig):
    """The settings of IQL. `offline_data(input_=...)` says what is learned from."""

    algorithm = "IQL"

    defaults = values(
        train_batch_size=2000,
        tau=1.0,
        target_network_update_freq=0,
        num_steps_sampled_before_learning_starts=0,
        replay_buffer_config=values(type=UNIFORM, capacity=1_000_000),
        min_time_s_per_iteration=None,
        min_sample_timesteps_per_iteration=100,
    )

    beta = Field(0.1, "How much more what was better is imitated (the inverse temperature).", above=0, since="current")
    expectile = Field(
        0.8, "Which expectile of recorded actions the value is: 0.5 their mean, near 1 the best.", above=0,
        range=(None, 1), since="current",
    )  # fmt: skip
    twin_q = Field(True, "Whether there are two critics, of which the lower value counts.", since="current")
    actor_lr = Field[float | Schedule](3e-4, "The policy's learning rate.", range=(0, None), since="current")
    critic_lr = Field[float | Schedule](3e-4, "The critics' learning rate.", range=(0, None), since="current")
    value_lr = Field[float | Schedule](3e-4, "The value's learning rate.", range=(0, None), since="current")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        beta: float = NOT_PROVIDED,
        expectile: float = NOT_PROVIDED,
        twin_q: bool = NOT_PROVIDED,
        actor_lr: float | Schedule = NOT_PROVIDED,
        critic_lr: float | Schedule = NOT_PROVIDED,
        value_lr: float | Schedule = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how IQL learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from refused_settings(self)
        if self.expectile >= 1:
            yield f"expectile={self.expectile} has no value that is finite; set it between 0 and 1, such as 0.8"


class IQL(OffPolicyActorCritic):
    """Learns a value, critics and a policy of recorded actions alone."""

    config: IQLConfig
    config_class = IQLConfig
    box = "gaussian"
    takes_discrete = True
    followed = (CRITICS,)
    without: ClassVar[Mapping[str, str]] = OffPolicyActorCritic.without

    def module_options(self) -> ActorQCriticsOptions:
        """Return how the networks are built: all with the layers of `model`."""
        layers = hidden_layers(self.config.model, self.config.model)
        return ActorQCriticsOptions(
            policy=layers,
            critic=layers,
            critics=2 if self.config.twin_q else 1,
            initial_temperature=None,
            convolutions=convolution_options(self.config.model),
            value=layers,
        )

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return those of value, critics and policy, each over its own parameters, at its own rate."""
        return {
            "value": self.objective(expectile_loss(self.config.expectile), (VALUE,), lr="value_lr"),
            "critic": self.objective(self.make_loss(), (CRITICS,), lr="critic_lr"),
            "policy": self.objective(weighted_imitation_loss(self.distribution), (POLICY,), lr="actor_lr"),
        }

    def make_loss(self) -> Loss:
        """Return the loss of critics: half the squares of their errors (equation 6)."""
        return critic_loss(lambda nn, errors: 0.5 * nn.square(errors))

    def targets_of(self, batch: Batch) -> Array:
        """Return r + discount V(s'): equation 6."""
        return discounted(batch, self.state_values(batch[columns.NEXT_OBS]))

    def learn_once(self) -> Metrics:
        """Let the value, the policy and the critics make a step each, in the order of the authors' code."""
        batch = self.draw()
        batch[TARGET_VALUES] = self.target_values(batch)
        metrics = self.update(batch, ("value",))
        metrics.update(self.improve_policy(batch))
        self.prepare(batch)
        metrics.update(self.learner.update(batch, self.env_steps_sampled, ("critic",)))
        errors = metrics.pop(TD_ERRORS)
        self.replay.update_priorities(batch[columns.BATCH_INDEXES], errors)
        self.updates += 1
        self.follow()
        return {**metrics, "mean_td_error": float(errors.mean())}

    def improve_policy(self, batch: Batch) -> Metrics:
        """Let the policy make a step to recorded actions, by exp(beta (Q'(s, a) - V(s))), 100 at most: equation 7."""
        advantages = batch[TARGET_VALUES] - self.state_values(batch[columns.OBS])
        weights = np.exp(np.minimum(self.config.beta * advantages, np.log(_MOST_WEIGHT))).astype(np.float32)
        batch[ACTION_WEIGHTS] = weights
        metrics = self.learner.update(batch, self.env_steps_sampled, ("policy",))
        return {**metrics, **told_of_weights(advantages, weights)}

    def target_values(self, batch: Batch) -> Array:
        """Return what the slower copies of critics give for recorded actions [N]: the lower value of two."""
        obs, actions = batch[columns.OBS], batch[columns.ACTIONS]

        def lower(nn: Ops, parameters: Parameters) -> Any:
            found = self.module.q_values(nn, parameters, obs, nn.constant(actions))
            return least(nn, found if self.bounds is not None else values_of_taken(nn, found, actions))

        found: Array = self.learner.evaluate(lower, self.target.vector)
        return found

    def state_values(self, obs: Array) -> Array:
        """Return the values of observations of now [N]."""
        found: Array = self.learner.evaluate(lambda nn, p: self.module.state_values(nn, p, obs))
        return found


def expectile_loss(expectile: float) -> Loss:
    """Return the loss of the value: the mean of |expectile - 1(u < 0)| u^2, for u = `target_q_values` - V(s).

    Those are equations 4 and 5.

    Args:
        expectile: 0.5 for the mean; higher for an upper expectile.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        found = module.state_values(nn, parameters, batch[columns.OBS])
        errors = nn.constant(batch[TARGET_VALUES]) - found
        below = nn.relu(-errors)
        total = nn.mean(expectile * nn.square(nn.relu(errors)) + (1 - expectile) * nn.square(below))
        return total, {"value_loss": total, "mean_value": nn.mean(found)}

    return loss
