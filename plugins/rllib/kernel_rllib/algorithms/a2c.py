"""Synchronous advantage actor-critic (Mnih et al., 2016, arXiv 1602.01783), with micro-batches.

It is A3C (see `a3c.py`, where the loss is) without asynchrony: all lanes are stepped with the same parameters, and one
step is made by the gradient of all their experience.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kernel_rllib.algorithms.a3c import A3CConfig, actor_critic_experience, actor_critic_loss
from kernel_rllib.algorithms.on_policy import actor_critic, pieces, whole
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.validate import fragment_problem
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.gradient_mean import GradientMean
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.modules.module import Module
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.exploring_for_reward import ADVANTAGES, REWARDS
from kernel_rllib.training.honoured import ACTOR_CRITIC, ONE_PASS, PIPELINED

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class A2CConfig(A3CConfig):
    """The settings of A2C."""

    algorithm = "A2C"

    defaults = values(
        rollout_fragment_length=Default("auto", older={"1.x": 20}),
        min_time_s_per_iteration=10,
        sample_async=False,
    )

    microbatch_size = Field[int | None](
        None,
        "Env steps of one part of a batch, whose gradients are added up before the update; None: all at once.",
        range=(1, None),
        unit="env steps",
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        microbatch_size: int | None = NOT_PROVIDED,
        use_critic: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        entropy_coeff: float | Schedule = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how A2C learns; return this config."""
        return self

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps each environment of a runner makes for one fragment.

        With "auto", those of all environments make up a micro-batch, or the whole batch where there are none.
        """
        if self.rollout_fragment_length == "auto" and self.microbatch_size is not None:
            return -(-self.microbatch_size // self.total_envs)
        return super().get_rollout_fragment_length(worker_index)

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from filter(None, [fragment_problem(self)])
        if self.microbatch_size is not None and self.microbatch_size > self.total_train_batch_size:
            yield (
                f"microbatch_size={self.microbatch_size} is more than train_batch_size={self.total_train_batch_size}; "
                "make it smaller, or None"
            )
        if self.microbatch_size is not None and max(self.num_learners, self.num_gpus_per_learner) > 1:
            yield f"microbatch_size={self.microbatch_size} is for one learner; set num_learners to 0 and num_gpus to 1"


class A2C(Algorithm):
    """Trains by one update for each short batch of all lanes, with values that complete the returns."""

    config: A2CConfig
    config_class = A2CConfig
    intrinsic_rewards = frozenset({REWARDS, ADVANTAGES})
    acts_on = ACTOR_CRITIC | PIPELINED
    without = ONE_PASS

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return a policy and a value."""
        return actor_critic(self.config, observation, distribution)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the loss of advantage actor-critics."""
        entropy = schedule(self.config.entropy_coeff, "entropy_coeff")
        loss = actor_critic_loss(self.config, self.distribution, lambda: entropy.value(self.env_steps_sampled))
        return {"a2c": self.objective(loss)}

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Estimate advantages, and make one step."""
        found = actor_critic_experience(self.learner, fragments, self.config)
        if self.config.microbatch_size is None:
            return self.update(whole(found))
        return self._learn_in_parts(pieces(found, self.config.microbatch_size))

    def _learn_in_parts(self, parts: Iterable[Batch]) -> Metrics:
        """Differentiate micro-batches one after another, and make one step by the mean of their gradients.

        The parameters are the same for all of them, so the mean is the gradient of the whole batch.
        """
        found = GradientMean()
        told: Metrics = {}
        for part in parts:
            told |= self.reports.before_learning(self.learner, self.spaces, part)
            found.add(*self.learner.gradient("a2c", part), part.count)
        self.env_steps_trained += found.count
        metrics, gradient = found.mean()
        return {**self.learner.apply("a2c", gradient, self.env_steps_sampled, metrics), **told}
