"""Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel_rllib.algorithms.advantages import estimate_advantages, explained_variance, standardise_advantages
from kernel_rllib.algorithms.on_policy import actor_critic, critic_problems, experience, mean_over
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.name_table import Name
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.validate import fragment_problem
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.data.sequences import Sequences
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.exploring_for_reward import ADVANTAGES, REWARDS
from kernel_rllib.training.honoured import ACTOR_CRITIC, PIPELINED
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

READ = (
    columns.OBS,
    columns.ACTIONS,
    columns.ACTION_LOGP,
    columns.ACTION_DIST_INPUTS,
    columns.ADVANTAGES,
    columns.VALUE_TARGETS,
)
"""The columns of a batch that the loss reads."""


class PPOConfig(AlgorithmConfig):
    """The settings of PPO."""

    algorithm = "PPO"

    defaults = values(
        lr=5e-5,
        num_env_runners=2,
        train_batch_size=4000,
        rollout_fragment_length=Default("auto", older={"1.x": 200}),
        num_epochs=30,
        minibatch_size=128,
        shuffle_batch_per_epoch=True,
        model=values(vf_share_layers=False),
    )
    in_all_dicts = ("grad_clip", "num_epochs", "minibatch_size", "shuffle_batch_per_epoch")
    more_in_0_8_5 = values(lr_schedule=None, entropy_coeff_schedule=None, simple_optimizer=False, _fake_gpus=False)
    rows = (Name("model/vf_share_layers", "vf_share_layers", "-", wins=True),)

    use_critic = Field(True, "Whether advantages are measured against a value function.")
    use_gae = Field(True, "Whether they are generalised estimates (GAE), which need the value function.")
    lambda_ = Field(1.0, "How far these look ahead before the value function takes over.", range=(0, 1))
    use_kl_loss = Field(
        True, "Whether the distance to the policy before the update is a part of the loss.", since="current"
    )
    kl_coeff = Field(0.2, "The first weight of that distance.", range=(0, None))
    kl_target = Field(0.01, "The distance that its weight is adapted to reach.", range=(0, None))
    vf_loss_coeff = Field(1.0, "The weight of the value function's loss.", range=(0, None))
    vf_clip_param = Field(10.0, "Where the value function's squared error is clipped.", above=0)
    entropy_coeff = Field[float | Schedule](
        0.0, "The weight of the entropy that is added, or its schedule over env steps.", range=(0, None)
    )
    clip_param = Field(0.3, "How far the ratio of new to old probabilities counts: from 1 - it to 1 + it.", above=0)

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        use_critic: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        use_kl_loss: bool = NOT_PROVIDED,
        kl_coeff: float = NOT_PROVIDED,
        kl_target: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        vf_clip_param: float = NOT_PROVIDED,
        entropy_coeff: float | Schedule = NOT_PROVIDED,
        clip_param: float = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how PPO learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from filter(None, [fragment_problem(self)])
        yield from critic_problems(self)
        if not self.use_gae and self.batch_mode == "truncate_episodes" and not self.in_evaluation:
            yield (
                "use_gae=False sums rewards to the ends of episodes, but batch_mode='truncate_episodes' cuts them; "
                "set batch_mode to 'complete_episodes'"
            )


class PPO(Algorithm):
    """Trains by several passes over each batch of experience, with a clipped change of the policy."""

    config: PPOConfig
    config_class = PPOConfig
    intrinsic_rewards = frozenset({REWARDS, ADVANTAGES})
    acts_on = ACTOR_CRITIC | PIPELINED
    learns_from = (columns.ACTION_LOGP, columns.ACTION_DIST_INPUTS)

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return a policy and a value."""
        return actor_critic(self.config, observation, distribution)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the clipped surrogate."""
        self.kl_coefficient = self.config.kl_coeff
        self.entropy_schedule = schedule(self.config.entropy_coeff, "entropy_coeff")
        loss = ppo_loss(self.config, self.distribution, lambda: self.kl_coefficient, self.entropy_coefficient)
        return {"ppo": self.objective(loss)}

    def entropy_coefficient(self) -> float:
        """Return the weight of the entropy after the steps that were made so far."""
        return self.entropy_schedule.value(self.env_steps_sampled)

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Estimate advantages, and make `num_epochs` passes in minibatches."""
        batch = self.experience(fragments)
        stream = self.stream("minibatches", self.iteration, self.learner.version)
        epochs, shuffle = self.config.num_epochs, self.config.shuffle_batch_per_epoch
        parts = batch.minibatches(self.config.minibatch_size or batch.count, stream, epochs=epochs, shuffle=shuffle)
        metrics = mean_metrics([self.update(minibatch) for minibatch in parts])
        metrics |= {"cur_lr": metrics["ppo_learning_rate"], "cur_kl_coeff": self.kl_coefficient}
        if self.config.use_critic:
            metrics["vf_explained_var"] = explained_variance(fragments)
        self.kl_coefficient = adapted(self.kl_coefficient, metrics, self.config.kl_target)
        return metrics

    def experience(self, fragments: Sequence[Fragment]) -> Batch | Sequences:
        """Return what is learned from: steps with standardised advantages, in sequences where the module remembers."""
        config = self.config
        for fragment in fragments:
            estimate_advantages(
                self.learner,
                fragment,
                gamma=config.gamma,
                lambda_=config.lambda_,
                use_gae=config.use_gae,
                use_critic=config.use_critic,
            )
        standardise_advantages(fragments)
        return experience(self.learner.module, fragments, READ, config.model.max_seq_len)

    def own_state(self) -> dict[str, Any]:
        """Return the coefficient of the penalty."""
        return {"kl_coefficient": self.kl_coefficient}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.kl_coefficient = float(state["kl_coefficient"])


def adapted(coefficient: float, metrics: Mapping[str, float], target: float) -> float:
    """Return the penalty's coefficient, half as much again or halved where `kl` is far from its target (section 4)."""
    if metrics.get("kl", target) > 2.0 * target:
        return coefficient * 1.5
    return coefficient * 0.5 if metrics.get("kl", target) < 0.5 * target else coefficient


def ppo_loss(
    config: Any,
    distribution: Distribution,
    kl_coefficient: Callable[[], float],
    entropy_coefficient: Callable[[], float],
    *,
    value_weight: float | None = None,
) -> Loss:
    """Return PPO's loss: the clipped surrogate, a bound on the value's error, an entropy bonus and a KL penalty.

    L = mean( -min(r A, clip(r, 1 - e, 1 + e) A) + c1 min((V - R)^2, v) - c2 H ) + b mean KL(old, new), where
    r = pi(a|s) / pi_old(a|s): equations 7, 8 and 9 of the paper; v is RLlib's bound on the squared error.

    Args:
        config: Gives e (`clip_param`), c1 (`vf_loss_coeff`), v (`vf_clip_param`, where it has one).
        distribution: The policy's.
        kl_coefficient: Gives b, which adapts from iteration to iteration.
        entropy_coefficient: Gives c2, which may follow a schedule.
        value_weight: c1, where it is not that of the config.
    """
    value_weight = config.vf_loss_coeff if value_weight is None else value_weight
    bound = getattr(config, "vf_clip_param", math.inf)

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        mean = mean_over(nn, batch)
        outputs = module.train(nn, parameters, batch)
        inputs = outputs[columns.ACTION_DIST_INPUTS]
        before, advantages = nn.constant(batch[columns.ACTION_LOGP]), nn.constant(batch[columns.ADVANTAGES])
        actions = nn.constant(batch[columns.ACTIONS])
        log_probs, entropies = distribution.log_prob_and_entropy(nn, inputs, actions)
        bounds = 1.0 - config.clip_param, 1.0 + config.clip_param
        policy_loss = -mean(nn.clipped_surrogate(log_probs, before, advantages, *bounds))
        bonus = entropy_coefficient()
        entropy = mean(entropies if bonus else nn.stop_gradient(entropies))  # 0: it is only shown
        total = policy_loss - bonus * entropy if bonus else policy_loss
        metrics = {"policy_loss": policy_loss, "entropy": entropy, "entropy_coeff": bonus}
        if config.use_critic:
            value_error = nn.square(outputs[columns.VF_PREDS] - nn.constant(batch[columns.VALUE_TARGETS]))
            metrics["vf_loss"] = mean(value_error if bound == math.inf else nn.clip(value_error, 0.0, bound))
            total = total + value_weight * metrics["vf_loss"]
        if config.use_kl_loss and (coefficient := kl_coefficient()):
            metrics["kl"] = mean(distribution.kl(nn, nn.constant(batch[columns.ACTION_DIST_INPUTS]), inputs))
            total = total + coefficient * metrics["kl"]
        return total, {**metrics, "total_loss": total}

    return loss
