"""Critic regularised regression (Wang et al. 2020, arXiv:2006.15134): imitate what critics find better than the policy.

Critics learn what actions are worth from recorded experience alone. The policy imitates recorded actions: either those
alone that are better than its own (`weight_type="bin"`), or all, the more so the better they are ("exp"). It never goes
by the slopes of critics, so that it stays near to what was recorded. `input_` says what that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from kernel_rllib.algorithms.off_policy_actor_critic import (
    OffPolicyActorCritic,
    critic_loss,
    discounted,
    refused_settings,
)
from kernel_rllib.algorithms.simple_q import TdErrorLoss
from kernel_rllib.algorithms.weighted_imitation import ACTION_WEIGHTS, told_of_weights, weighted_imitation_loss
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.model_config import Activation
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.replay_config import UNIFORM
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.actor_q_critics import CRITICS, POLICY, ActorQCriticsOptions, HiddenLayers, least
from kernel_rllib.modules.catalog import activation_name, convolution_options
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

WeightType = Literal["bin", "exp"]
AdvantageType = Literal["mean", "max", "expectation"]


class CRRConfig(OffPolicyConfig):
    """The settings of CRR. `offline_data(input_=...)` says what is imitated."""

    algorithm = "CRR"

    defaults = values(
        train_batch_size=128,
        tau=5e-3,
        target_network_update_freq=0,
        num_steps_sampled_before_learning_starts=0,
        replay_buffer_config=values(type=UNIFORM, capacity=1_000_000),
        min_time_s_per_iteration=None,
        min_sample_timesteps_per_iteration=100,
    )

    weight_type = Field[WeightType](
        "bin", "Whether an action is imitated or not, or by exp(advantage / temperature).", since="1.x"
    )
    temperature = Field(1.0, "How even the weights of 'exp' are.", above=0, since="1.x")
    max_weight = Field(20.0, "The greatest weight of 'exp'.", above=0, since="1.x")
    advantage_type = Field[AdvantageType](
        "mean",
        "What an action is compared with: the mean or the maximum over actions that the policy draws, or of discrete "
        "ones the expectation over all.",
        since="1.x",
    )
    n_action_sample = Field(4, "How many actions the policy draws for that.", range=(1, None), since="1.x")
    twin_q = Field(True, "Whether there are two critics, of which the lower value counts.", since="1.x")
    target_update_grad_intervals = Field(
        100, "After how many updates the slower copy follows, by `tau`.", range=(1, None), since="1.x"
    )
    td_error_loss_fn = Field[TdErrorLoss]("mse", "Whether critics' errors count by their squares.", since="1.x")
    actor_hiddens = Field[list[int]]([256, 256], "Sizes of the policy's dense layers.", range=(1, None), since="1.x")
    actor_hidden_activation = Field[Activation]("relu", "What follows each of them.", since="1.x")
    critic_hiddens = Field[list[int]]([256, 256], "Sizes of the critics' dense layers.", range=(1, None), since="1.x")
    critic_hidden_activation = Field[Activation]("relu", "What follows each of them.", since="1.x")
    actor_lr = Field[float | Schedule](3e-4, "The policy's learning rate.", range=(0, None), since="1.x")
    critic_lr = Field[float | Schedule](3e-4, "The critics' learning rate.", range=(0, None), since="1.x")
    categorical_distribution_temperature = Field(
        1.0,
        "What the policy's scores of discrete actions are divided by.",
        above=0,
        since="1.x",
        inert="1 is what it has, and other values are refused",
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        weight_type: WeightType = NOT_PROVIDED,
        temperature: float = NOT_PROVIDED,
        max_weight: float = NOT_PROVIDED,
        advantage_type: AdvantageType = NOT_PROVIDED,
        n_action_sample: int = NOT_PROVIDED,
        twin_q: bool = NOT_PROVIDED,
        target_update_grad_intervals: int = NOT_PROVIDED,
        td_error_loss_fn: TdErrorLoss = NOT_PROVIDED,
        actor_hiddens: list[int] = NOT_PROVIDED,
        actor_hidden_activation: Activation = NOT_PROVIDED,
        critic_hiddens: list[int] = NOT_PROVIDED,
        critic_hidden_activation: Activation = NOT_PROVIDED,
        actor_lr: float | Schedule = NOT_PROVIDED,
        critic_lr: float | Schedule = NOT_PROVIDED,
        categorical_distribution_temperature: float = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how CRR learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from refused_settings(self)
        if self.categorical_distribution_temperature != 1:
            yield (
                f"categorical_distribution_temperature={self.categorical_distribution_temperature} divides scores that "
                "the policy learns as it is, by which it only acts more or less at random; leave it at 1, and evaluate "
                "with explore=False for the best actions"
            )


class CRR(OffPolicyActorCritic):
    """Learns critics of recorded experience, and a policy that imitates what they find good in it."""

    config: CRRConfig
    config_class = CRRConfig
    box = "gaussian"
    takes_discrete = True
    followed = (POLICY, CRITICS)
    without: ClassVar[Mapping[str, str]] = {
        **OffPolicyActorCritic.without,
        "model/fcnet_hiddens": "give the layers to actor_hiddens and critic_hiddens",
        "model/fcnet_activation": "give it to actor_hidden_activation and critic_hidden_activation",
    }

    def module_options(self) -> ActorQCriticsOptions:
        """Return how the networks are built."""
        config = self.config
        return ActorQCriticsOptions(
            policy=HiddenLayers(tuple(config.actor_hiddens), activation_name(config.actor_hidden_activation)),
            critic=HiddenLayers(tuple(config.critic_hiddens), activation_name(config.critic_hidden_activation)),
            critics=2 if config.twin_q else 1,
            initial_temperature=None,
            convolutions=convolution_options(config.model),
        )

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return those of critics and policy. Raises ConfigError where continuous actions have no expectation."""
        if self.config.advantage_type == "expectation" and self.bounds is not None:
            raise ConfigError(
                f"{self.config.title}: advantage_type='expectation' sums over all actions, and these are continuous; "
                "take 'mean' or 'max'"
            )
        return {
            "critic": self.objective(self.make_loss(), (CRITICS,), lr="critic_lr"),
            "policy": self.objective(weighted_imitation_loss(self.distribution), (POLICY,), lr="actor_lr"),
        }

    def make_loss(self) -> Loss:
        """Return the loss of critics: half the squares of their errors, or Huber's of them."""
        is_huber = self.config.td_error_loss_fn == "huber"
        return critic_loss(lambda nn, errors: nn.huber(errors) if is_huber else 0.5 * nn.square(errors))

    def targets_of(self, batch: Batch) -> Array:
        """Return r + discount min Q'(s', a'), for an action a' that the slower copy of the policy draws.

        Discrete actions are averaged over, by how likely they are.
        """
        obs = batch[columns.NEXT_OBS]
        if self.bounds is None:
            probs, of_all = self.probabilities_and_values(obs, self.target.vector)
            return discounted(batch, (probs * of_all).sum(axis=1))
        actions, _ = self.drawn_actions(obs, 1, self.target.vector)
        return discounted(batch, self.values(obs, np.clip(actions, *self.bounds), self.target.vector)[:, 0])

    def improve_policy(self, batch: Batch) -> Metrics:
        """Let the policy make a step towards recorded actions, by their weights."""
        advantages = self.advantages(batch)
        weights = action_weights(advantages, self.config)
        batch[ACTION_WEIGHTS] = weights
        metrics = self.learner.update(batch, self.env_steps_sampled, ("policy",))
        return {**metrics, **told_of_weights(advantages, weights)}

    def advantages(self, batch: Batch) -> Array:
        """Return how much better recorded actions [N] are than what they are compared with, as critics of now say."""
        obs, actions, kind = batch[columns.OBS], batch[columns.ACTIONS], self.config.advantage_type
        number = self.config.n_action_sample
        if self.bounds is None:
            probs, of_all = self.probabilities_and_values(obs)
            taken: Array = of_all[np.arange(len(obs)), actions]
            if kind == "expectation":
                expected: Array = (probs * of_all).sum(axis=1)
                return taken - expected
            draws = self.draws.random((len(obs), number, 1), np.float32)
            places = (draws > probs.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
            others = np.take_along_axis(of_all, places, axis=1)
        else:
            drawn, _ = self.drawn_actions(obs, number)
            found = self.values(obs, np.concatenate([actions[:, None], np.clip(drawn, *self.bounds)], axis=1))
            taken, others = found[:, 0], found[:, 1:]
        compared: Array = others.max(axis=1) if kind == "max" else others.mean(axis=1)
        return taken - compared

    def values(self, obs: Array, actions: Array, vector: Any = None) -> Array:
        """Return the lower values [N, M] of several continuous actions [N, M, D] at each observation.

        Args:
            obs: The observations [N, ...].
            actions: The actions.
            vector: The parameters; None for those of now.
        """
        count, number, width = actions.shape
        rows, flat = obs.repeat(number, axis=0), actions.reshape(count * number, width)
        found: Array = self.learner.evaluate(
            lambda nn, p: least(nn, self.module.q_values(nn, p, rows, nn.constant(flat))), vector
        ).reshape(count, number)
        return found

    def probabilities_and_values(self, obs: Array, vector: Any = None) -> tuple[Array, Array]:
        """Return how likely each discrete action is [N, A], and the lower values of all [N, A]."""

        def both(nn: Ops, parameters: Parameters) -> tuple[Any, Any]:
            inputs = self.module.train(nn, parameters, {columns.OBS: obs})[columns.ACTION_DIST_INPUTS]
            return nn.softmax(inputs, 1), least(nn, self.module.q_values(nn, parameters, obs))

        found: tuple[Array, Array] = self.learner.evaluate(both, vector)
        return found

    def follow(self) -> None:
        """Let the slower copy follow, if it is time: by updates, or by steps learned from where these are set."""
        config = self.config
        steps, size = config.target_network_update_freq, config.train_batch_size
        if self.updates % (-(-steps // size) if steps else config.target_update_grad_intervals) == 0:
            self.target.follow(self.learner.vector, config.tau)


def action_weights(advantages: Array, config: Any) -> Array:
    """Return f(A) [N] of section 3: 1 where A > 0 ("bin"), or exp(A / temperature), `max_weight` at most ("exp").

    Args:
        advantages: A [N].
        config: Gives `weight_type`, `temperature` and `max_weight`.
    """
    if config.weight_type == "bin":
        return np.asarray(advantages > 0, np.float32)
    limit = np.log(config.max_weight)
    return np.asarray(np.exp(np.minimum(advantages / config.temperature, limit)), np.float32)
