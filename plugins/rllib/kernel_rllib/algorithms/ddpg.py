"""Deep deterministic policy gradient (Lillicrap et al. 2015, arXiv:1509.02971)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

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
from kernel_rllib.config.model_config import Activation
from kernel_rllib.config.name_table import Name
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.replay_config import PRIORITIZED
from kernel_rllib.config.sentinels import DEPRECATED_VALUE, NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.actor_q_critics import CRITICS, POLICY, ActorQCriticsOptions, HiddenLayers, least
from kernel_rllib.modules.catalog import activation_name, convolution_options
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class DDPGConfig(OffPolicyConfig):
    """The settings of DDPG."""

    algorithm = "DDPG"

    defaults = values(
        train_batch_size=256,
        tau=0.002,
        target_network_update_freq=0,
        num_steps_sampled_before_learning_starts=1500,
        rollout_fragment_length=Default("auto", older={"1.x": 1}),
        replay_buffer_config=values(type=PRIORITIZED, capacity=50_000, alpha=0.6, beta=0.4, final_beta=0.4),
        exploration_config=Default(
            values(
                type="OrnsteinUhlenbeckNoise",
                random_timesteps=1000,
                ou_base_scale=0.1,
                ou_theta=0.15,
                ou_sigma=0.2,
                initial_scale=1.0,
                final_scale=0.02,
                scale_timesteps=10_000,
            ),
            older={
                "0.8.5": values(
                    type="OrnsteinUhlenbeckNoise",
                    random_timesteps=1000,
                    ou_base_scale=0.1,
                    ou_theta=0.15,
                    ou_sigma=0.2,
                    initial_scale=1.0,
                    final_scale=1.0,
                    scale_timesteps=10_000,
                )
            },
        ),
        evaluation_config=values(explore=False),
    )
    in_all_dicts = ("grad_clip",)
    more_in_0_8_5 = values(parameter_noise=DEPRECATED_VALUE)
    rows = (Name("grad_clip", "grad_norm_clipping", "grad_clip"),)

    actor_lr = Field[float | Schedule](1e-3, "The policy's learning rate.", range=(0, None))
    critic_lr = Field[float | Schedule](1e-3, "The critic's learning rate.", range=(0, None))
    actor_hiddens = Field[list[int]]([400, 300], "Sizes of the policy's dense layers.", range=(1, None))
    actor_hidden_activation = Field[Activation]("relu", "What follows each of them.")
    critic_hiddens = Field[list[int]]([400, 300], "Sizes of the critic's dense layers.", range=(1, None))
    critic_hidden_activation = Field[Activation]("relu", "What follows each of them.")
    use_state_preprocessor = Field(False, "Whether the networks of `model` come before the others.")
    twin_q = Field(False, "Whether there are two critics, of which the lower value counts (TD3).")
    policy_delay = Field(1, "How many updates of the critic there are for one of the policy (TD3).", range=(1, None))
    smooth_target_policy = Field(False, "Whether the target policy's actions are disturbed (TD3).")
    target_noise = Field(0.2, "The deviation of what disturbs them.", range=(0, None))
    target_noise_clip = Field(0.5, "Where that is clipped.", range=(0, None))
    use_huber = Field(False, "Whether the critic's loss is Huber's rather than the square.")
    huber_threshold = Field(1.0, "Where Huber's loss becomes linear.", above=0)
    l2_reg = Field(1e-6, "The weight of the squared parameters in the losses.", range=(0, None))

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        actor_lr: float | Schedule = NOT_PROVIDED,
        critic_lr: float | Schedule = NOT_PROVIDED,
        actor_hiddens: list[int] = NOT_PROVIDED,
        actor_hidden_activation: Activation = NOT_PROVIDED,
        critic_hiddens: list[int] = NOT_PROVIDED,
        critic_hidden_activation: Activation = NOT_PROVIDED,
        use_state_preprocessor: bool = NOT_PROVIDED,
        twin_q: bool = NOT_PROVIDED,
        policy_delay: int = NOT_PROVIDED,
        smooth_target_policy: bool = NOT_PROVIDED,
        target_noise: float = NOT_PROVIDED,
        target_noise_clip: float = NOT_PROVIDED,
        use_huber: bool = NOT_PROVIDED,
        huber_threshold: float = NOT_PROVIDED,
        l2_reg: float = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how DDPG learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from refused_settings(self)
        if self.use_state_preprocessor:
            yield (
                "use_state_preprocessor=True puts the networks of `model` before those of policy and critics; leave it "
                "out, and give their layers to actor_hiddens and critic_hiddens"
            )


class DDPG(OffPolicyActorCritic):
    """Learns a policy that gives one action, by the slope of a critic there; explores by noise on that action."""

    config: DDPGConfig
    config_class = DDPGConfig
    action_kinds = ("continuous",)
    perturbs_parameters = True
    box = "deterministic"
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
        """Return those of critics and policy, each over its own parameters, at its own rate."""
        policy = with_l2(policy_loss(self.distribution), POLICY, self.config.l2_reg)
        return {
            "critic": self.objective(self.make_loss(), (CRITICS,), lr="critic_lr"),
            "policy": self.objective(policy, (POLICY,), lr="actor_lr"),
        }

    def make_loss(self) -> Loss:
        """Return the loss of critics: the squares of their errors, or Huber's of them."""
        config = self.config

        def cost(nn: Ops, errors: Any) -> Any:
            return nn.huber(errors, config.huber_threshold) if config.use_huber else nn.square(errors)

        return with_l2(critic_loss(cost), CRITICS, config.l2_reg)

    @property
    def policy_delay(self) -> int:
        """The number of updates of the critics for each update of the policy and of the target networks."""
        return self.config.policy_delay

    def targets_of(self, batch: Batch) -> Array:
        """Return r + discount Q'(s', mu'(s')): algorithm 1. Of two critics the lower one counts (TD3, equation 10)."""
        inputs = {columns.OBS: batch[columns.NEXT_OBS]}
        noise = self._target_noise(batch.count) if self.config.smooth_target_policy else None

        def next_values(nn: Ops, parameters: Parameters) -> Any:
            given = self.module.train(nn, parameters, inputs)[columns.ACTION_DIST_INPUTS]
            actions = self.distribution.mode(nn, given)
            if noise is not None and self.bounds is not None:
                low, high = (nn.constant(bound) for bound in self.bounds)
                actions = nn.minimum(nn.maximum(actions + nn.constant(noise), low), high)
            return least(nn, self.module.q_values(nn, parameters, inputs[columns.OBS], actions))

        return discounted(batch, self.learner.evaluate(next_values, self.target.vector))

    def improve_policy(self, batch: Batch) -> Metrics:
        """Let the policy make a step."""
        return self.learner.update(batch, self.env_steps_sampled, ("policy",))

    def _target_noise(self, count: int) -> Array:
        """Return what disturbs the actions of targets, so that they are averages over like ones: TD3, section 5.3."""
        noise = self.normals(count)
        noise *= np.float32(self.config.target_noise)
        return np.clip(noise, -self.config.target_noise_clip, self.config.target_noise_clip, out=noise)


def policy_loss(distribution: Distribution) -> Loss:
    """Return minus the mean of Q(s, mu(s)) by the first critic: its gradient is equation 6, with the sign turned.

    Args:
        distribution: Makes actions of what the policy gives.
    """

    def loss(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        actions = distribution.mode(nn, module.train(nn, parameters, batch)[columns.ACTION_DIST_INPUTS])
        (values,) = module.q_values(nn, parameters, batch[columns.OBS], actions, critics=1)
        total = -nn.mean(values)
        return total, {"actor_loss": total}

    return loss


def with_l2(loss: Loss, prefix: str, coefficient: float) -> Loss:
    """Return the loss with half the squares of weights added, though not of biases (section 7).

    Args:
        loss: The loss to which they are added.
        prefix: The beginning of the names of the parameters that count.
        coefficient: The factor of half the sum of squares.
    """
    if not coefficient:
        return loss

    def penalised(nn: Ops, module: Any, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        total, metrics = loss(nn, module, parameters, batch)
        for name, weight in parameters.items():
            if name.startswith(prefix) and name.endswith("/weight"):
                total = total + 0.5 * coefficient * nn.sum(nn.square(weight))
        return total, metrics

    return penalised
