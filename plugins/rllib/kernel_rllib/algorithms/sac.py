"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905; for discrete actions Christodoulou, arXiv:1910.07207)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernel_rllib.algorithms.off_policy_actor_critic import (
    OffPolicyActorCritic,
    critic_loss,
    discounted,
    refused_settings,
)
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.name_table import Conversion, Name
from kernel_rllib.config.network_config import NetworkConfig
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.parts import Part
from kernel_rllib.config.replay_config import PRIORITIZED, UNIFORM
from kernel_rllib.config.sentinels import DEPRECATED_VALUE, NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import UnknownSettingError
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.actor_q_critics import CRITICS, POLICY, TEMPERATURE, ActorQCriticsOptions, least
from kernel_rllib.modules.catalog import convolution_options, hidden_layers
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.nn.ops import Ops

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

NOISE = "action_noise"
"""The column of normal numbers that actions are drawn by."""
ENTROPIES = "entropies"
"""The column of the policy's entropies, estimated or exact."""

_RATES = {
    "actor_learning_rate": "actor_lr",
    "critic_learning_rate": "critic_lr",
    "entropy_learning_rate": "alpha_lr",
}


def _read_rates(given: Mapping[str, Any], everything: Mapping[str, Any]) -> dict[str, Any]:
    rates = given.get("optimization", given.get("optimization_config")) or {}
    otherwise = f"; there are {', '.join(_RATES)}"
    for name in rates:
        if name not in _RATES:
            raise UnknownSettingError(
                f"optimization has no setting {name!r}{did_you_mean(str(name), _RATES, otherwise)}"
            )
    return {_RATES[name]: rate for name, rate in rates.items()}


def _write_rates(config: Any) -> dict[str, Any]:
    return {"optimization": {name: getattr(config, setting) for name, setting in _RATES.items()}}


class SACConfig(OffPolicyConfig):
    """The settings of SAC."""

    algorithm = "SAC"

    defaults = values(
        lr=Default(None, older={"2.x": 0.001, "1.x": 0.0001}),
        train_batch_size=256,
        tau=5e-3,
        target_network_update_freq=0,
        num_steps_sampled_before_learning_starts=1500,
        rollout_fragment_length=Default("auto", older={"1.x": 1}),
        replay_buffer_config=Default(
            values(type=PRIORITIZED, capacity=1_000_000, alpha=0.6, beta=0.4),
            older={"2.x": values(type=UNIFORM, capacity=1_000_000, alpha=0.6, beta=0.4, final_beta=0.4)},
        ),
        min_time_s_per_iteration=1,
        min_sample_timesteps_per_iteration=100,
        normalize_actions=True,
    )
    in_all_dicts = ("grad_clip",)
    more_in_0_8_5 = values(grad_norm_clipping=DEPRECATED_VALUE)
    rows = (
        Name("q_model_config", "Q_model", "", "q_model_config"),
        Name("policy_model_config", "policy_model", "", "policy_model_config"),
        Conversion(
            ("optimization", "optimization_config"),
            _read_rates,
            write=_write_rates,
            covers=("actor_lr", "critic_lr", "alpha_lr"),
            generations=("0.8.5", "1.x", "2.x"),
        ),
    )

    twin_q = Field(True, "Whether there are two critics, of which the lower value counts.")
    q_model_config = Part(NetworkConfig, "The networks of critics.")
    policy_model_config = Part(NetworkConfig, "The network of the policy.")
    actor_lr = Field[float | Schedule](3e-5, "The policy's learning rate.", older={"2.x": 3e-4}, range=(0, None))
    critic_lr = Field[float | Schedule](3e-4, "The critics' learning rate.", range=(0, None))
    alpha_lr = Field[float | Schedule](3e-4, "The learning rate of the entropy's weight.", range=(0, None))
    initial_alpha = Field(1.0, "The first weight of the entropy.", above=0)
    target_entropy = Field[float | Literal["auto"] | None](
        "auto", "The entropy that its weight is adapted to reach; 'auto': by the actions; None: it stays as it is."
    )
    use_state_preprocessor = Field(
        False, "Whether the networks of `model` come before the others.", until="0.8.5", since="0.8.5"
    )
    _deterministic_loss = Field(False, "Whether the loss takes the mean action instead of a sampled one, for tests.")
    _use_beta_distribution = Field(False, "Whether actions are drawn from a beta distribution.")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
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
        """Set how SAC learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from refused_settings(self)
        yield from self.q_model_config.problems_of_dense("q_model_config")
        yield from self.policy_model_config.problems_of_dense("policy_model_config")
        if self.use_state_preprocessor:
            yield (
                "use_state_preprocessor=True puts networks before those of policy and critics; leave it out, and give "
                "their layers to policy_model_config and q_model_config"
            )
        if self._use_beta_distribution:
            yield (
                "_use_beta_distribution=True needs gradients through draws from a beta distribution, which there are "
                "not; leave it out for a squashed normal distribution"
            )


class SAC(OffPolicyActorCritic):
    """Learns a policy that is as random as it can be while it earns much; how much that counts is learned too."""

    config: SACConfig
    config_class = SACConfig
    box = "squashed_gaussian"
    takes_discrete = True
    followed = (CRITICS,)

    def module_options(self) -> ActorQCriticsOptions:
        """Return how the networks are built."""
        config = self.config
        return ActorQCriticsOptions(
            policy=hidden_layers(config.policy_model_config, config.model),
            critic=hidden_layers(config.q_model_config, config.model),
            critics=2 if config.twin_q else 1,
            initial_temperature=config.initial_alpha,
            convolutions=convolution_options(config.model),
        )

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return those of critics, policy and temperature, each over its own parameters, at its own rate."""
        objectives = {
            "critic": self.objective(self.make_loss(), (CRITICS,), lr="critic_lr"),
            "policy": self.objective(self.make_policy_loss(), (POLICY,), lr="actor_lr"),
        }
        if self.config.target_entropy is not None:
            loss = temperature_loss(self.target_entropy)
            objectives["temperature"] = self.objective(loss, (TEMPERATURE,), lr="alpha_lr")
        return objectives

    def make_loss(self) -> Loss:
        """Return the loss of critics: half the squares of their errors, equation 5."""
        return critic_loss(lambda nn, errors: 0.5 * nn.square(errors))

    def make_policy_loss(self) -> Loss:
        """Return the loss of the policy, of continuous or of discrete actions."""
        return (policy_loss if self.distribution.reparameterised else discrete_policy_loss)(self.distribution)

    @property
    def target_entropy(self) -> float:
        """The entropy to reach, in nats; 'auto' is -1 for each number of an action between -1 and 1 (appendix D).

        Of n discrete actions it is 0.98 log n (1910.07207, section 3).
        """
        if isinstance(self.config.target_entropy, (int, float)):
            return float(self.config.target_entropy)
        if self.bounds is None:
            return 0.98 * math.log(self.distribution.parameter_size)
        low, high = self.bounds
        return float(np.log((high - low) / 2.0).sum()) - self.distribution.action_size

    def targets_of(self, batch: Batch) -> Array:
        """Return r + discount (min Q'(s', a') - alpha log pi(a' | s')): equations 2 and 3.

        The action a' is drawn from the policy of now; discrete ones are averaged over (1910.07207, equation 10).
        """
        return self.bootstrapped(batch, counts_entropy=True)

    def bootstrapped(self, batch: Batch, *, counts_entropy: bool) -> Array:
        """Return the targets of `targets_of`, with the policy's entropy after the steps or without."""
        actions, log_probs, temperature = self.next_actions(batch)
        values = self.learner.evaluate(
            lambda nn, p: least(nn, self.module.q_values(nn, p, batch[columns.NEXT_OBS], actions)), self.target.vector
        )
        if counts_entropy:
            values = values - temperature * log_probs
        return discounted(batch, values if self.bounds is not None else (np.exp(log_probs) * values).sum(axis=1))

    def next_actions(self, batch: Batch) -> tuple[Any, Array, Array]:
        """Return actions a' after the steps of a minibatch by the policy of now, log pi(a' | s') [N], and alpha [1].

        Of discrete actions there is None, and log pi(s') of all of them [N, A].
        """
        draw = {columns.OBS: batch[columns.NEXT_OBS], NOISE: self._noise(batch.count)}

        def next_policy(nn: Ops, parameters: Parameters) -> tuple[Any, Any, Any]:
            inputs = self.module.train(nn, parameters, draw)[columns.ACTION_DIST_INPUTS]
            temperature = nn.exp(self.module.log_temperature(parameters))
            if self.bounds is None:
                return None, nn.log_softmax(inputs, 1), temperature
            return *self.distribution.sample_and_log_prob(nn, inputs, nn.constant(draw[NOISE])), temperature

        found: tuple[Any, Array, Array] = self.learner.evaluate(next_policy)
        return found

    def improve_policy(self, batch: Batch) -> Metrics:
        """Let the policy make a step, and the temperature, if it is learned."""
        batch[NOISE] = self._noise(batch.count)
        metrics = self.learner.update(batch, self.env_steps_sampled, ("policy",))
        batch[ENTROPIES] = metrics.pop(ENTROPIES)
        metrics["entropy"] = float(batch[ENTROPIES].mean())
        if self.config.target_entropy is not None:
            metrics["target_entropy"] = self.target_entropy
            metrics.update(self.learner.update(batch, self.env_steps_sampled, ("temperature",)))
        return metrics

    def _noise(self, count: int) -> Array:
        """Return what `count` actions are drawn by: zeros stand for the mean action."""
        if self.bounds is None or self.config._deterministic_loss:
            return np.zeros((count, self.distribution.noise.width), np.float32)
        return self.normals(count)


def policy_loss(distribution: Distribution, value: Callable[[Ops, Sequence[Any]], Any] = least) -> Loss:
    """Return the mean of alpha log pi(a | s) - min Q(s, a) for an action a(s) that has a gradient: equations 7 and 9.

    Args:
        distribution: The policy's; actions are drawn by the column `action_noise`.
        value: Returns what an action is worth [N] by what all critics give for it; by default the least.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        inputs = module.train(nn, parameters, batch)[columns.ACTION_DIST_INPUTS]
        temperature = nn.stop_gradient(nn.exp(module.log_temperature(parameters)))
        actions, log_probs = distribution.sample_and_log_prob(nn, inputs, nn.constant(batch[NOISE]))
        values = value(nn, module.q_values(nn, parameters, batch[columns.OBS], actions))
        total = nn.mean(temperature * log_probs - values)
        return total, {"actor_loss": total, ENTROPIES: -nn.stop_gradient(log_probs)}

    return loss


def discrete_policy_loss(distribution: Distribution) -> Loss:
    """Return the mean of pi(s) . (alpha log pi(s) - min Q(s)): equation 12 of 1910.07207.

    Args:
        distribution: The policy's, of discrete actions.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        inputs = module.train(nn, parameters, batch)[columns.ACTION_DIST_INPUTS]
        temperature = nn.stop_gradient(nn.exp(module.log_temperature(parameters)))
        values = nn.stop_gradient(least(nn, module.q_values(nn, parameters, batch[columns.OBS])))
        log_probs = nn.log_softmax(inputs, 1)
        total = nn.mean(nn.sum(nn.exp(log_probs) * (temperature * log_probs - values), 1))
        return total, {"actor_loss": total, ENTROPIES: distribution.entropy(nn, nn.stop_gradient(inputs))}

    return loss


def temperature_loss(target_entropy: float) -> Loss:
    """Return log alpha times how far the mean of the column `entropies` is above the target.

    That is equation 18 of 1812.05905 (11 of 1910.07207) with log alpha in the place of alpha, as its authors' code has
    it: its step does not get smaller with alpha.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        log_temperature = nn.sum(module.log_temperature(parameters))
        total = log_temperature * (float(batch[ENTROPIES].mean()) - target_entropy)
        log_alpha = float(nn.to_numpy(log_temperature))
        return total, {"alpha_loss": total, "alpha_value": math.exp(log_alpha), "log_alpha_value": log_alpha}

    return loss
